from __future__ import annotations

from agent_r1_core.testing import make_trajectory
from agent_r1_core.training.reward_metrics import reward_metrics


def test_rewards_are_means_over_episodes_and_process_rewards_are_summed_over_turns() -> None:
    paid = make_trajectory(reward=1.0, rewards={"exact_match": 1.0}, turn_rewards=[0.5, 0.25], answer="2")
    for turn, score in zip(paid.turns, (0.5, 0.25), strict=True):
        turn.rewards = {"valid_tool_call": score}
    idle = make_trajectory(reward=0.0, rewards={"exact_match": 0.0})
    metrics = reward_metrics([paid, idle])
    assert metrics["reward/mean"] == 1.75 / 2
    assert metrics["reward/exact_match"] == 0.5
    assert metrics["reward/valid_tool_call"] == 0.75 / 2


def test_no_episode_has_no_metrics() -> None:
    assert reward_metrics([]) == {}
