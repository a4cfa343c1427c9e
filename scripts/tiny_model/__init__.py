"""What the makers of the bundled models share: tokenizer, demonstrations, supervised training, playing."""
