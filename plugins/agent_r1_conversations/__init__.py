"""Built-in plugin `conversations`: demonstrations from a file."""
