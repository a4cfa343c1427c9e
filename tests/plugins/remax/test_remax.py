"""ReMax: the contract, and a run in which a group has one sample."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_r1_remax.remax import ReMax

from agent_r1_core import train
from agent_r1_core.evaluation.listener import Silence
from agent_r1_core.testing import AlgorithmContract


class TestReMax(AlgorithmContract):
    component = ReMax
    variants = ({}, {"kl_coef": 0.01}, {"loss_mask": False})


def test_a_run_with_one_sample_a_task_learns_and_its_files_tell_the_greedy_episodes_apart(tmp_path: Path) -> None:
    keys = ["algorithm=remax", "training.steps=1", "training.samples_per_task=1", "training.tasks_per_step=8"]
    keys += ["evaluation={every: 0, at_start: false, at_end: false}", f"run.dir={tmp_path}"]
    told, listener = [], Silence()
    listener.episodes = lambda *said: told.append(said)  # type: ignore[method-assign]
    run = train("default", [*keys, "run.name=one", "threads=1", "checkpoint.best=null"], listener=listener)
    assert told == [(done, 16, "rollout") for done in range(1, 17)]
    (metrics,) = run.metrics()
    assert metrics["rollout/episodes"] == metrics["update/trajectories"] == 8
    assert 0 <= metrics["baseline/greedy_return"] <= 1
    assert metrics["update/steps"] == 1
    played = run.read_trajectories(1)
    assert [one.baseline for one in played] == [False] * 8 + [True] * 8
    advantages = [known["advantages"] for known in run.read_token_numbers(1)]
    assert [values is None for values in advantages] == [one.baseline for one in played]
    returns = {one.task.id: one.total_reward for one in played if one.baseline}
    for one, values in zip(played[:8], advantages, strict=False):
        assert max(values, key=abs) == pytest.approx(one.total_reward - returns[one.task.id])
