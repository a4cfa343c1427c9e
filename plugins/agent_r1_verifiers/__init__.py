"""The task source and the reward `verifiers`: task sets of the package verifiers, in a Python of its own."""
