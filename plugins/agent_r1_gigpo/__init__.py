"""GiGPO: groups of trajectories, and within them groups of turns that began in the same state."""
