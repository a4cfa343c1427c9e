"""The learning rate at chosen steps."""

from __future__ import annotations

import pytest

from agent_r1_core.learning.optimiser import lr_factor


def test_the_warm_up_rises_to_one_and_never_starts_at_zero() -> None:
    assert [lr_factor(step, 10, 4, "constant") for step in range(1, 7)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_decay_begins_at_one_passes_a_half_and_ends_above_zero(schedule: str) -> None:
    factors = [lr_factor(step, 10, 0, schedule) for step in range(1, 11)]
    assert factors[0] == 1.0
    assert factors == sorted(factors, reverse=True)
    assert factors[5] == pytest.approx(0.5)
    assert 0 < factors[-1] < 0.15
    assert lr_factor(99, 10, 0, schedule) == 0.0


def test_the_decay_begins_after_the_warm_up() -> None:
    assert lr_factor(3, 12, 2, "linear") == 1.0
    assert lr_factor(8, 12, 2, "linear") == pytest.approx(0.5)
