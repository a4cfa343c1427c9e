"""LAW 7: a group is one task under one policy; alone or without spread it teaches nothing."""

from __future__ import annotations

import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from agent_r1_grpo.plugin import PRESETS
from agent_r1_reinforce_pp.reinforce_pp import ReinforcePP

from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.learning.batch import Batch
from agent_r1_core.testing import make_task, make_trajectory, random_group, tiny_model
from agent_r1_core.testing.gradients import update_gradients
from agent_r1_core.trajectory import EndStatus, Group

ESTIMATORS: dict[str, Algorithm] = {
    "grpo": GRPO(),
    "grpo_without_eps": GRPO(GRPO.Config(eps=0.0)),
    **{preset.name: GRPO(GRPO.Config(**preset.config)) for preset in PRESETS},
    "reinforce_pp_baseline": ReinforcePP(ReinforcePP.Config(baseline=True)),
}
every_group_estimator = pytest.mark.parametrize("algorithm", ESTIMATORS.values(), ids=list(ESTIMATORS))


def group_of(task: str, *rewards: float, status: EndStatus = EndStatus.TERMINATED) -> Group:
    made = [make_trajectory(task=make_task(task), sample=i, reward=r, status=status) for i, r in enumerate(rewards)]
    return Group(make_task(task), made)


def advantages(algorithm: Algorithm, *groups: Group) -> list[float]:
    """One number per trajectory: its advantage at its first action token."""
    batch = Batch.from_groups(groups)
    found = algorithm.advantages(batch).advantages
    first = batch.action_mask.int().argmax(1)
    return found.gather(1, first[:, None])[:, 0].tolist()


@every_group_estimator
def test_a_group_of_one_has_no_advantage_rather_than_its_raw_reward(algorithm: Algorithm) -> None:
    assert advantages(algorithm, group_of("alone", 7.0), group_of("pair", 0.0, 1.0))[0] == 0.0


@every_group_estimator
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, -0.3])
def test_a_group_without_spread_has_advantage_zero_exactly(algorithm: Algorithm, reward: float) -> None:
    found = advantages(algorithm, group_of("flat", *[reward] * 7), group_of("pair", 0.0, 1.0))
    assert found[:7] == [0.0] * 7
    assert found[7] < 0 < found[8]


@every_group_estimator
def test_a_group_that_failures_left_alone_has_no_advantage(algorithm: Algorithm) -> None:
    group = group_of("broken", 1.0)
    group.trajectories += group_of("broken", 0.0, 0.0, status=EndStatus.FAILED).trajectories
    assert advantages(algorithm, group, group_of("pair", 0.0, 1.0))[0] == 0.0


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "reinforce_pp_baseline"])
def test_another_groups_rewards_change_nothing(name: str) -> None:
    algorithm = ESTIMATORS[name]
    one = advantages(algorithm, group_of("a", 0.0, 1.0, 0.5), group_of("b", 0.0, 1.0))[:3]
    other = advantages(algorithm, group_of("a", 0.0, 1.0, 0.5), group_of("b", 100.0, -7.0))[:3]
    assert one == other


def test_two_groups_of_one_task_are_two_groups() -> None:
    """A group is what came together under one policy version, not everything with the task's name."""
    together = advantages(GRPO(), group_of("same", 0.0, 1.0, 0.0, 0.0))
    apart = advantages(GRPO(), group_of("same", 0.0, 1.0), group_of("same", 0.0, 0.0))
    assert apart[2:] == [0.0, 0.0]
    assert together[2] != 0.0


@every_group_estimator
def test_a_rollout_that_teaches_nothing_has_no_gradient(algorithm: Algorithm) -> None:
    groups = [group_of("flat", 1.0, 1.0, 1.0), group_of("alone", 5.0)]
    for skip in (True, False):
        gradient = update_gradients(tiny_model(), algorithm, groups, skip_without_gradient=skip)[0]
        assert not gradient.any()


def test_advantages_are_finite_for_any_rewards() -> None:
    for seed in range(10):
        batch = Batch.from_groups([random_group(seed, 3)])
        batch.returns = batch.returns * 10.0 ** (seed - 5)
        for algorithm in ESTIMATORS.values():
            assert torch.isfinite(algorithm.advantages(batch).advantages).all()
