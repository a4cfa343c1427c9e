"""GRPO and its relatives: group baselines without a critic."""
