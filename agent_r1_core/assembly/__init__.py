"""What builds a run: its model, tasks, hardware, components and the two roles."""
