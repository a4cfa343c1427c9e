"""rft: the contract, which episodes are learnt from, and runs that learn from their own successes, or from none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_r1_rft.rft import RFT

from agent_r1_core import Trajectory, train
from agent_r1_core.config import load_config
from agent_r1_core.errors import ConfigError
from agent_r1_core.testing import AlgorithmContract, make_task, make_trajectory
from agent_r1_core.trajectory import EndStatus, Group

QUIET = ["evaluation.every=0", "evaluation.at_start=false", "evaluation.at_end=false", "checkpoint.best=null"]
SMALL = [*QUIET, "threads=1", "tasks.eval.size=8", "tasks.train.size=8", "training.tasks_per_step=4"]
SEVERAL = {"success_at": 0.5, "per_task": 1, "aggregation": "sequence_mean", "entropy_coef": 0.01}


class TestRFT(AlgorithmContract):
    component = RFT
    variants = ({}, SEVERAL, {"loss_mask": False})


def played(sample: int, reward: float, success: bool | None = None, **more: Any) -> Trajectory:
    """An episode of two turns that says its own number."""
    turns = (((1, 2), (3, 10 + sample)), ((4,), (5,)))
    trajectory = make_trajectory(turns, sample=sample, reward=reward, **more)
    trajectory.turns[-1].success = success
    return trajectory


def kept(*trajectories: Trajectory, **options: Any) -> list[int]:
    """The samples that are learnt from."""
    group, lost = Group(make_task(), list(trajectories)), Group(make_task("lost"), [played(0, -9.0)])
    return [one.sample for chosen in RFT(RFT.Config(**options)).filter([lost, group]) for one in chosen.trajectories]


def test_a_success_is_a_return_of_one_or_what_the_environment_says_and_is_counted() -> None:
    returns = [played(0, 0.99), played(1, 1.0), played(2, 0.7, turn_rewards=(0.1, 0.2)), played(3, 1.4)]
    assert kept(*returns) == [1, 2, 3]
    assert kept(*returns, success_at=1.2) == [3]
    judged = [played(0, 9.0, success=False), played(1, 0.0, success=True), played(2, 1.0)]
    assert kept(*judged) == [1, 2]
    assert kept(*judged, success_at=1.0) == [0, 2], "a bound of one's own counts instead"
    assert kept(played(0, 1.0, status=EndStatus.FAILED), played(1, 1.0)) == [1]
    groups, algorithm = [Group(make_task(), [played(k, k % 2) for k in range(4)])], RFT()
    assert algorithm.filter_metrics(groups, algorithm.filter(groups)) == {"succeeded": 2, "kept": 2}


def learn(folder: Path, *keys: str, algorithm: str = "rft", steps: int = 3) -> Any:
    own = [f"training.steps={steps}", "training.samples_per_task=4", f"run.dir={folder}"]
    return train("calculator", [*SMALL, f"algorithm={algorithm}", *own, *keys])


def test_a_run_learns_from_its_own_successes(tmp_path: Path) -> None:
    run = learn(tmp_path, "training.epochs=2", "training.minibatches=2")
    for step, line in enumerate(run.metrics(), 1):
        episodes = run.read_trajectories(step)
        pairs = zip(episodes, run.read_token_numbers(step), strict=True)
        chosen = [one for one, numbers in pairs if numbers["advantages"] is not None]
        assert 0 < line["update/kept"] == line["update/trajectories"] == len(chosen)
        assert line["update/kept"] <= line["update/succeeded"] == sum(one.total_reward >= 1 for one in episodes)
        assert all(one.total_reward >= 1 for one in chosen)
        assert line["update/nll"] > 0
        assert line["logprob_gap"] < 1e-2
        assert line["rollout/episodes"] == 16
    assert min(line["update/succeeded"] for line in run.metrics()) < 16, "no failure was there to be left out"
    assert run.alarms() == []


def test_a_step_without_a_success_changes_nothing_and_says_so(tmp_path: Path) -> None:
    run = learn(tmp_path, algorithm="{name: rft, success_at: 99}", steps=1)
    (line,) = run.metrics()
    assert (line["update/succeeded"], line["update/kept"], line["update/steps"]) == (0, 0, 0)
    assert "update/nll" not in line
    assert [alarm.monitor for alarm in run.alarms()] == ["empty_update"]


@pytest.mark.parametrize("monitor", ["group_std", "no_spread", "groups_without_spread"])
def test_no_monitor_asks_for_returns_that_differ(monitor: str) -> None:
    load_config("calculator", ["algorithm=rft", "training.samples_per_task=1"])
    with pytest.raises(ConfigError, match=f"health.{monitor} .* the algorithm rft learns from equal returns, too"):
        load_config("calculator", ["algorithm=rft", "training.samples_per_task=2", f"health.{monitor}=off"])
