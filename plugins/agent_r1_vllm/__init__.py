"""The vLLM engine: generation by vLLM's continuous batching, in this process or in processes of its own."""
