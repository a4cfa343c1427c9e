"""The task source `arithmetic`."""
