"""`run.plot()` and `run.show()`: curves and an episode inside a notebook, text where no page can be shown."""
