"""PPO with a critic and GAE over action tokens."""
