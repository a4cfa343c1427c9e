"""Which actions a mask against a mismatch leaves out, and what is logged of them; tests/yardstick has whole updates."""

from __future__ import annotations

import math

import pytest
import torch

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.mismatch import mismatched
from agent_r1_core.metrics import declared as metric

SEGMENT = torch.tensor([0, 0, 0, 1, 1, 2, 3])
ACTION = torch.tensor([0, 1, 1, 0, 0, 1, 1], dtype=torch.bool)
"""Segments of two actions, of none, of one, and of one."""


@pytest.mark.parametrize(
    ("mask", "ratios", "left_out"),
    [
        ("icepop", [1, 0.5, 0.49, 1, 1, 5, 5.1], [2, 6]),
        ("icepop", [1, 0.4, 0.4, 1, 1, 1, 1], [1, 2]),
        ("sequence", [1, 1.5, 2.1, 1, 1, 2.9, 0.01], [1, 2]),
        ("geometric", [1, 0.9, 1.12, 1, 1, 1.02, 1.005], [5]),
        ("off_policy", [1, 0.5, 0.5, 1, 1, 0.5, 9], [5]),
    ],
)
def test_the_bounds_of_a_ratio_and_the_shares_of_actions_and_segments(
    mask: str, ratios: list[float], left_out: list[int]
) -> None:
    """Bounds are kept; off_policy leaves out no action that earned something, such as those of the first segment."""
    log_ratio = torch.tensor([math.log(ratio) for ratio in ratios])
    earned = torch.tensor([0.0, 1, 1, 0, 0, -1, -1])
    found, logged = mismatched(TrainingConfig(mismatch_mask=mask), log_ratio, SEGMENT, ACTION, earned)
    assert found.nonzero().flatten().tolist() == left_out
    shares = {name: float(total / count) for name, (total, count) in logged.items()}
    segments = {int(SEGMENT[place]) for place in left_out}
    assert shares == {
        metric.UPDATE_MISMATCH_MASKED: pytest.approx(len(left_out) / 4),
        metric.UPDATE_MISMATCH_SEGMENTS: pytest.approx(len(segments) / 3),
    }
