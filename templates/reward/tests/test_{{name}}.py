"""Tests of the reward `{{name}}`."""

from agent_r1_core.testing import PluginContract, RewardContract, make_task, make_trajectory
from {{package}} import plugin
from {{package}}.reward import {{class}}

TASK = make_task(answers=("New York", "NYC"))


class TestReward(RewardContract):
    component = {{class}}
    cases = (
        (make_trajectory(task=TASK, answer="new york"), 1.0),
        (make_trajectory(task=TASK, answer="It is NYC"), 0.8),
        (make_trajectory(task=TASK, answer="York"), 0.0),
        (make_trajectory(task=TASK, answer=None), 0.0),
    )


class TestPlugin(PluginContract):
    plugin = plugin
