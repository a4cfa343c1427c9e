"""Rewards that ask a model: `judge` grades an answer, `judge_comparison` ranks the answers of a group."""
