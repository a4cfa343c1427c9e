"""The environments `gymnasium`, `frozen_lake`, `sokoban` and `bandit`: worlds with named actions."""
