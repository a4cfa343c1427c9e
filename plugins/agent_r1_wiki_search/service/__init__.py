"""The HTTP service of `wiki_search`: one loaded index that answers the searches of many trainings."""
