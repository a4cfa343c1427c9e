"""Tests of the task source `{{name}}`."""

from agent_r1_core.testing import PluginContract, TaskSourceContract
from {{package}} import plugin
from {{package}}.tasks import {{class}}


class TestTasks(TaskSourceContract):
    component = {{class}}
    config = {"size": 20}


class TestPlugin(PluginContract):
    plugin = plugin


def test_answers_are_right():
    for task in {{class}}().load():
        word, letter = task.metadata["word"], task.metadata["letter"]
        assert task.answers == (str(sum(one == letter for one in word)),)


def test_other_seeds_give_other_questions():
    first, second = ({{class}}({{class}}.Config(seed=seed)).load() for seed in (0, 1))
    assert [task.prompt for task in first] != [task.prompt for task in second]
    assert not {task.id for task in first} & {task.id for task in second}
