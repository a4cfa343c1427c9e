"""Tests of the algorithm `{{name}}`."""

import pytest

from agent_r1_core import Group
from agent_r1_core.learning.batch import Batch
from agent_r1_core.testing import AlgorithmContract, PluginContract, make_task, make_trajectory
from {{package}} import plugin
from {{package}}.algorithm import {{class}}


class TestAlgorithm(AlgorithmContract):
    component = {{class}}


class TestWithoutLossMask(AlgorithmContract):
    component = {{class}}
    config = {"loss_mask": False}
    masked = False


class TestPlugin(PluginContract):
    plugin = plugin


def test_the_advantage_is_the_return_less_the_mean():
    task = make_task()
    group = Group(task, [make_trajectory(task=task, sample=i, reward=r) for i, r in enumerate((1.0, 0.0, 0.5))])
    batch = Batch.from_groups([group])
    advantages = {{class}}().advantages(batch).advantages
    assert advantages.max(dim=1).values[0].item() == pytest.approx(0.5)
    assert advantages.min(dim=1).values[1].item() == pytest.approx(-0.5)
    assert not advantages[2].any()
