"""What make_worlds_model.py teaches: aimless play."""
