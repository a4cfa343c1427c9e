"""The harness of the experiments: statistics over seeds, and runs that are made once."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SMALL = (
    "training.steps=2",
    "training.tasks_per_step=2",
    "training.samples_per_task=2",
    "tasks.train.size=8",
    "engine.max_new_tokens=4",
    "evaluation.every=1",
    "evaluation.size=2",
)


@pytest.fixture
def arms(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import arms

    return arms


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062047), (2, 4.3026527), (4, 2.7764451), (9, 2.2621572), (30, 2.0422725)]
)
def test_quantiles_are_those_of_the_tables(arms: ModuleType, freedom: int, quantile: float) -> None:
    assert arms.t_quantile(freedom) == pytest.approx(quantile, abs=1e-6)


def test_an_interval_is_that_of_student(arms: ModuleType) -> None:
    found = arms.interval([0.2, 0.4, 0.9])
    assert (found.mean, found.n) == (pytest.approx(0.5), 3)
    assert found.high - found.mean == pytest.approx(4.3026527 * 0.36055513 / 3**0.5, abs=1e-6)
    assert found.mean - found.low == pytest.approx(found.high - found.mean)
    assert arms.interval([0.5]).low is None


def test_a_difference_is_taken_seed_by_seed(arms: ModuleType) -> None:
    hard_and_easy = {0: 0.1, 1: 0.9, 5: 0.3}
    better = {seed: score + 0.05 for seed, score in hard_and_easy.items()} | {7: 0.0}
    found = arms.difference(better, hard_and_easy)
    assert (found.low, found.high, found.n) == (pytest.approx(0.05), pytest.approx(0.05), 3)
    with pytest.raises(ValueError, match="common seed"):
        arms.difference({1: 0.0}, {2: 0.0})


class Evaluated:
    """A run with evaluations of its own making, one of them from outside the training."""

    def evaluations(self) -> dict[str, Any]:
        scores = {"a": (10, 1.0), "b": (0, 0.0), "c": (None, 0.3), "d": (5, 0.8)}
        return {
            name: {"step": step, "metrics": {"exact_match": {"mean": mean}}} for name, (step, mean) in scores.items()
        }


def test_the_area_is_the_mean_height_of_the_curve(arms: ModuleType) -> None:
    run = Evaluated()
    assert arms.evaluated(run) == [(0, 0.0), (5, 0.8), (10, 1.0)]
    assert arms.last(run) == 1.0
    assert arms.area(run) == pytest.approx((0.4 * 5 + 0.9 * 5) / 10)


@pytest.mark.slow
def test_a_finished_run_is_read_and_one_with_other_settings_refused(
    arms: ModuleType, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{root}:{root / 'plugins'}")
    arm = arms.Arm("GRPO, small", SMALL)
    first = arms.trained(tmp_path, arm, 3)
    assert [line["step"] for line in first.metrics()] == [1, 2]
    assert first.config()["seed"] == 3
    assert "seed3" in capsys.readouterr().out
    again = arms.trained(tmp_path, arm, 3)
    assert (again.path, capsys.readouterr().out) == (first.path, "")
    with pytest.raises(SystemExit, match="other settings"):
        arms.trained(tmp_path, arms.Arm("GRPO, small", (*SMALL, "training.lr=1e-3")), 3)
    with pytest.raises(SystemExit, match=r"(?s)log.*training\.stepps"):
        arms.trained(tmp_path, arms.Arm("wrong", ("training.stepps=1",)), 3)
