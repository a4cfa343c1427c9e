"""The parts of make_worlds_model.py: tokenizer, aimless play, measuring, model card."""
