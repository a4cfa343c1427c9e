"""The run directory: configuration, plugins, metrics, trajectories, evaluations, checkpoints; whole after any kill."""
