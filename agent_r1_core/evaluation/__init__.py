"""Scores with their scorer, their n and their uncertainty (LAW 12); baselines to hold them against."""
