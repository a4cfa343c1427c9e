"""Declares every metric of a run once; producers, monitors, displays and trackers look it up."""
