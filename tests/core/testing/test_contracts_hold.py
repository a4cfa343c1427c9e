"""The built-in components keep the contracts that third-party ones are tested with."""

# ruff: noqa: RUF012 - the settings of a contract class are never changed

from __future__ import annotations

import agent_r1_calculator.plugin
import agent_r1_grpo.plugin
import agent_r1_miniwiki.plugin
import agent_r1_ppo.plugin
import agent_r1_reinforce_pp.plugin
import agent_r1_rewards.plugin
import agent_r1_tool_calling.plugin
import agent_r1_tool_formats.plugin
import agent_r1_transformers.plugin
import agent_r1_wiki_search.plugin
import pytest
from agent_r1_arithmetic.source import Arithmetic
from agent_r1_calculator.tool import Calculator
from agent_r1_grpo.grpo import GRPO
from agent_r1_miniwiki.source import MiniWiki
from agent_r1_ppo.ppo import PPO
from agent_r1_reinforce_pp.reinforce_pp import ReinforcePP
from agent_r1_rewards.answers import F1, ExactMatch
from agent_r1_rewards.calls import ValidToolCall
from agent_r1_rewards.form import ExactMatchWithFormat, Format
from agent_r1_tensorboard.tracker import TensorBoard
from agent_r1_tool_calling.env import ToolCalling
from agent_r1_tool_formats.hermes import Hermes
from agent_r1_tool_formats.search_tags import SearchTags
from agent_r1_transformers.engine import TransformersEngine
from agent_r1_wiki_search.tool import WikiSearch

from agent_r1_core import Passage, ToolCall
from agent_r1_core.testing import (
    AlgorithmContract,
    EngineContract,
    PluginContract,
    RewardContract,
    TaskSourceContract,
    ToolContract,
    ToolEnvContract,
    ToolFormatContract,
    TrackerContract,
    make_task,
    make_trajectory,
)

TWO = make_task(answers=("2", "two"))
RIGHT = make_trajectory(task=TWO, answer="Two.")
WRONG = make_trajectory(task=TWO, answer="3")


def calculator() -> Calculator:
    tool = Calculator()
    tool.name = "calculator"
    return tool


class TestCalculator(ToolContract):
    component = Calculator
    arguments = {"expression": "12 + 7"}
    expected = "19"
    refused = {"expression": "1 / 0"}


class TestWikiSearch(ToolContract):
    component = WikiSearch
    arguments = {"query": "Karimo"}
    expected = "Karimo\nKarimo is a city."
    refused = {"query": " "}
    corpus = (Passage("Karimo", "Karimo is a city."), Passage("Belu", "Belu is a film."))


class TestToolCalling(ToolEnvContract):
    component = ToolCalling
    actions = (Hermes().render_call(ToolCall("calculator", {"expression": "1+1"})), "<answer>2</answer>")
    tools = (calculator(),)
    tool_format = Hermes()


class TestExactMatch(RewardContract):
    component = ExactMatch
    cases = ((RIGHT, 1.0), (WRONG, 0.0))


class TestF1(RewardContract):
    component = F1
    cases = ((RIGHT, 1.0), (WRONG, 0.0))


class TestFormat(RewardContract):
    component = Format


class TestExactMatchWithFormat(RewardContract):
    component = ExactMatchWithFormat


class TestValidToolCall(RewardContract):
    component = ValidToolCall


class TestArithmetic(TaskSourceContract):
    component = Arithmetic


class TestMiniwiki(TaskSourceContract):
    component = MiniWiki
    config = {"size": 20}


class TestHermes(ToolFormatContract):
    component = Hermes
    malformed = ("<tool_call>\n{]\n</tool_call>", '<tool_call>{"name": "search"', "<tool_call>[]</tool_call>")


class TestSearchTags(ToolFormatContract):
    component = SearchTags
    malformed = ("<search>", "<search> </search>", "</search>")


class TestTensorBoard(TrackerContract):
    component = TensorBoard


class TestTransformersEngine(EngineContract):
    component = TransformersEngine


class TestGRPO(AlgorithmContract):
    component = GRPO


class TestGRPOWithKL(AlgorithmContract):
    component = GRPO
    config = {"kl_coef": 0.05, "aggregation": "token_mean"}


class TestGSPO(AlgorithmContract):
    component = GRPO
    config = {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4}


class TestGRPOWithoutLossMask(AlgorithmContract):
    component = GRPO
    config = {"loss_mask": False}
    masked = False


class TestPPO(AlgorithmContract):
    component = PPO


class TestReinforcePP(AlgorithmContract):
    component = ReinforcePP


@pytest.mark.parametrize(
    "module",
    [
        agent_r1_calculator.plugin,
        agent_r1_grpo.plugin,
        agent_r1_miniwiki.plugin,
        agent_r1_ppo.plugin,
        agent_r1_reinforce_pp.plugin,
        agent_r1_rewards.plugin,
        agent_r1_tool_calling.plugin,
        agent_r1_tool_formats.plugin,
        agent_r1_transformers.plugin,
        agent_r1_wiki_search.plugin,
    ],
    ids=lambda module: module.__name__.split(".")[0],
)
def test_a_plugin_module_is_in_order(module: object) -> None:
    type("Here", (PluginContract,), {"plugin": module})().test_every_component_can_be_loaded_and_keeps_its_contract()
