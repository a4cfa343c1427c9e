"""The tool `wiki_search`."""
