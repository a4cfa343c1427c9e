"""The loop that turns tasks into a better policy, and what it stands on: assembly, hardware choice, resume."""
