"""The embedded engine: generation with a model of the transformers library inside this process."""
