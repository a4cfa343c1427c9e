"""Reading: what pages show of episodes and evaluations, a part at a time, from the files of a run."""
