"""The task source `geo`: questions about real countries and cities."""
