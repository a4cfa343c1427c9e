"""Watches a run for collapse: monitors over its metrics, alarms, a verdict. Pure Python over numbers by name."""
