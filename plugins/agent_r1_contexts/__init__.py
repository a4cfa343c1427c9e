"""Context strategies: `append`, `window`, `summary`."""
