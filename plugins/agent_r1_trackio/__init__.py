"""The tracker `trackio`."""
