"""The loop that turns tasks into a better policy, how it resumes, and what it shows and records."""
