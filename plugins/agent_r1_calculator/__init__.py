"""The tool `calculator`."""
