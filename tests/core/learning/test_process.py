"""Where the scale of process rewards leaves a batch alone; tests/yardstick compares its formula."""

from __future__ import annotations

from batches import batch_of

from agent_r1_core.learning.process import scaled_rewards
from agent_r1_core.testing import make_trajectory


def test_without_process_rewards_or_without_a_scale_nothing_changes() -> None:
    unpaid, paid = batch_of(make_trajectory(reward=1.0)), batch_of(make_trajectory(turn_rewards=(0.5, 0.0)))
    assert scaled_rewards(unpaid, 3.0) is unpaid.rewards
    assert scaled_rewards(paid, None) is paid.rewards
