"""The tools `python` and `shell`."""
