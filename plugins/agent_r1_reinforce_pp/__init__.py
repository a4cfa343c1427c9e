"""REINFORCE++: returns to go, whitened over the batch, without a critic."""
