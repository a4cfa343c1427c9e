"""The task source `gsm8k`."""
