"""`plot(run)` and `show(run)`: curves and an episode inside a notebook, text where no page can be shown."""
