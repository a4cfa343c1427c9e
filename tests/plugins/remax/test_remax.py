"""ReMax: the contract, returns to go less the greedy return, and a run in which a group has one sample."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from agent_r1_remax.remax import ReMax

from agent_r1_core import train
from agent_r1_core.evaluation.listener import Silence
from agent_r1_core.learning.batch import Batch
from agent_r1_core.testing import AlgorithmContract, make_task, make_trajectory, random_group
from agent_r1_core.trajectory import Group

TWO_TURNS = (((1, 2), (3, 4)), ((5, 6, 7), (8,)))


class TestReMax(AlgorithmContract):
    component = ReMax
    variants = ({}, {"kl_coef": 0.01}, {"loss_mask": False})


def made(**options) -> ReMax:
    return ReMax(ReMax.Config(**options))


def test_what_is_to_go_is_compared_with_all_that_the_greedy_episode_earned() -> None:
    one = make_trajectory(TWO_TURNS, turn_rewards=(0.5, 0.0), reward=1.0)
    greedy = make_trajectory(TWO_TURNS, turn_rewards=(0.25, 0.0), reward=0.5, baseline=True)
    batch = Batch.from_groups([Group(make_task(), [one], greedy), Group(make_task("other"), [one])])
    advantages = made().advantages(batch).advantages
    torch.testing.assert_close(advantages[0], torch.tensor([0, 0, 0.75, 0.75, 0, 0, 0, 0.25]))
    assert not advantages[1].any()
    without_mask = made(loss_mask=False).advantages(batch).advantages
    torch.testing.assert_close(without_mask[0], torch.tensor([0, 0, 0.75, 0.75, 0.25, 0.25, 0.25, 0.25]))


def test_only_groups_with_a_baseline_are_trained_on() -> None:
    compared, alone = random_group(0, 2), Group(make_task(), [make_trajectory()])
    assert made().filter([compared, alone]) == [compared]


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
