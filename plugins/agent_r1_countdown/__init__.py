"""The environment `countdown`: numbers, a target, and an expression that reaches it."""
