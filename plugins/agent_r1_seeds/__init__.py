"""The task source `seeds`."""
