"""Rewards for tasks with known answers, and for well-formed actions."""
