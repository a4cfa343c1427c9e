"""The task source and the reward `reasoning_gym`: its data sets, generated and scored in a process of their own."""
