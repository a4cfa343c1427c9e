"""Reading what was recorded, a part at a time: summaries, curves, evaluations, groups, episodes, search."""
