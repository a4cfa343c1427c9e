"""The tracker `tensorboard`."""
