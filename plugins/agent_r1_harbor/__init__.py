"""The task source and the environment `harbor`."""
