"""Aggregation weights against the definitions, on losses by hand."""

from __future__ import annotations

import pytest
import torch

from agent_r1_core.learning.aggregation import aggregation_weights

MASK = torch.tensor([[True, True, False, False], [True, True, True, True], [False, False, False, False]])
LOSS = torch.tensor([[1.0, 3.0, 100.0, 100.0], [2.0, 2.0, 2.0, 6.0], [100.0] * 4])


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("token_mean", 16 / 6),
        ("sequence_mean", (2 + 3) / 2),
        ("sequence_sum", (4 + 12) / 2),
        ("constant", (4 + 12) / (2 * 8)),
    ],
)
def test_the_weighted_sum_is_the_definition(aggregation: str, expected: float) -> None:
    weights = aggregation_weights(MASK, aggregation, horizon=8)
    assert float((weights * LOSS).sum()) == pytest.approx(expected)
    assert not weights[~MASK].any()


def test_no_token_no_weight() -> None:
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    for aggregation in ("token_mean", "sequence_mean", "sequence_sum", "constant"):
        assert not aggregation_weights(nothing, aggregation).any()
