"""What the experiments count: episodes until a score, falls of the reward, alarms before them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@dataclass
class Recorded:
    """A run of which only the numbers are known."""

    rewards: list[float] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)
    apart: tuple[int, ...] = ()
    """Steps in which engine and learner disagree, which is an alarm at once."""

    def metrics(self) -> list[dict[str, Any]]:
        return [
            {
                "step": step,
                "reward/mean": reward,
                "rollout/episodes": 10.0 * step,
                "prob_gap": 0.02 if step in self.apart else 0.001,
            }
            for step, reward in enumerate(self.rewards, 1)
        ]

    def evaluations(self) -> dict[str, Any]:
        return {f"{step}": {"step": step, "metrics": {"success": {"mean": s}}} for step, s in self.scores.items()}


@pytest.fixture
def credit(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import turn_credit

    return turn_credit


@pytest.fixture
def trap(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import echo_trap

    return echo_trap


def test_episodes_are_counted_up_to_the_score_between_two_evaluations(credit: ModuleType) -> None:
    run = Recorded(rewards=[0.0] * 4, scores={0: 0.1, 2: 0.2, 4: 0.6})
    assert credit.episodes_to(0.4, run) == (pytest.approx(30 + 0.5 * 70), True)
    assert credit.episodes_to(0.2, run) == (pytest.approx(30), True)
    assert credit.episodes_to(0.1, run) == (0.0, True)
    assert credit.episodes_to(0.7, run) == (100.0, False)


def test_a_reward_falls_where_its_running_mean_is_half_of_its_best(trap: ModuleType) -> None:
    assert trap.fall([0.8] * 10 + [0.0] * 10) == 13
    assert trap.fall([0.8] * 10 + [0.0] * 2 + [0.8] * 10) is None
    assert trap.fall([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) is None
    assert trap.fall([1.0, 0.0]) is None


def test_alarms_count_before_a_fall_and_as_false_ones_without(trap: ModuleType) -> None:
    falling, steady = [0.8] * 10 + [0.0] * 10, [0.8] * 20
    rows = [
        trap.judged("a", 0, Recorded(falling, apart=(12, 15))),
        trap.judged("a", 1, Recorded(falling)),
        trap.judged("a", 2, Recorded(falling, apart=(13,))),
        trap.judged("a", 3, Recorded(steady, apart=(7,))),
        trap.judged("a", 4, Recorded(steady)),
    ]
    assert [row["first alarm"] for row in rows] == [12, None, 13, 7, None], "the reward's own alarm does not count"
    assert [row["in time"] for row in rows] == [True, False, False, None, None]
    (table,) = trap.counted(rows)
    assert table["reward falls"] == "3 of 5"
    assert table["alarm before it"] == "1 of 3"
    assert table["false alarms"] == "1 of 2"
