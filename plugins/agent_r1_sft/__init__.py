"""Built-in plugin `sft`: learning from demonstrations."""
