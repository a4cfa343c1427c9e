"""PPO with a critic and masked GAE."""
