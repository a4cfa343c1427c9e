"""Tests of the agent `{{name}}`: a scripted policy takes the model's place."""

from agent_r1_core import Task
from agent_r1_core.testing import PluginContract
from agent_r1_gateway.testing import play_program
from {{package}} import plugin
from {{package}}.agent import MOST_STEPS
from {{package}}.env import {{class}}

TASK = Task("karimo", "Where was Karimo born?", ("Tavelo",))
CALL = '<tool_call>\n{"name": "look_up", "arguments": {"name": "Karimo"}}\n</tool_call>'


class TestPlugin(PluginContract):
    plugin = plugin


def test_it_looks_up_and_answers():
    trajectory = play_program([CALL, "<answer>Tavelo</answer>"], TASK, {{class}})
    assert trajectory.answer == "Tavelo"
    assert [call.name for call in trajectory.turns[0].calls] == ["look_up"]
    assert "Karimo was born in Tavelo." in trajectory.turns[1].observation[0]["content"]


def test_an_episode_is_one_segment():
    trajectory = play_program([CALL, CALL, "Tavelo"], TASK, {{class}})
    assert len(trajectory.segments) == 1


def test_a_model_that_never_answers_comes_to_an_end():
    trajectory = play_program([CALL], TASK, {{class}})
    assert trajectory.answer is None
    assert len(trajectory.turns) == MOST_STEPS
