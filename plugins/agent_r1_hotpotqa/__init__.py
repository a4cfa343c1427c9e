"""The task source `hotpotqa`."""
