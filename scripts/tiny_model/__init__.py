"""The parts of make_tiny_model.py: tokenizer, demonstrations, supervised training, measuring."""
