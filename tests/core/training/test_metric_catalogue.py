"""A run says what its metrics mean, and says loudly which ones nobody declared and what its algorithm warns of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_run import Notes, overrides

from agent_r1_core import train
from agent_r1_core.testing import tiny_model_folder

PLUGIN = '''
"""A tool that records how long its answers are, and an algorithm that reports something without a word."""
from dataclasses import replace

from agent_r1_core import AlgorithmSpec, Metric, RewardFn, RewardSpec, ToolSpec, hookimpl, tool
from agent_r1_grpo.grpo import GRPO

AGENT_R1_PLUGIN_API = 1


@tool
def echo(text: str, context) -> str:
    """Say it again."""
    context.metrics["letters"] = len(text)
    return text


echo.metrics = (Metric("letters", "letters of an answer"),)


class Chatty(GRPO):
    """GRPO with a metric that it declares, one that it does not, and a warning."""

    metrics = (Metric("declared", "always 1"),)

    def advantages(self, batch):
        return replace(super().advantages(batch), metrics={"declared": 1.0, "secret": 2.0}, warnings=("beware",))


class Length(RewardFn):
    """Varies."""

    range = (0.0, 1e6)

    def score(self, trajectory):
        return float(trajectory.action_tokens)


@hookimpl
def register_tools():
    return [ToolSpec("echo", ":echo", "echoes")]


@hookimpl
def register_algorithms():
    return [AlgorithmSpec("chatty", ":Chatty", "reports")]


@hookimpl
def register_rewards():
    return [RewardSpec("length", ":Length", "tokens")]
'''


@pytest.mark.parametrize("algorithm", ["chatty", "ppo"])
def test_every_metric_of_a_run_is_declared_or_named(tmp_path: Path, algorithm: str) -> None:
    plugin, notes = tmp_path / "chatty.py", Notes()
    plugin.write_text(PLUGIN)
    tiny_model_folder(tmp_path / "model")
    own = {"tools": "[echo]", "rewards": "[length]", "checkpoint__best": "eval/reward/length"}
    keys = overrides(tmp_path, 2, algorithm=algorithm, **own)
    run = train("default", keys, plugins=[plugin], listener=notes)
    told = [note for note in notes.said if "not declared" in note]
    assert [note.partition(" are ")[0] for note in told] == (
        ["the metrics update/secret"] if algorithm == "chatty" else []
    )
    warned = [note for note in notes.said if "beware" in note]
    assert warned == (["step 1: beware"] if algorithm == "chatty" else [])
    catalogue = {entry["name"]: entry for entry in json.loads((run.path / "metric_catalogue.json").read_text())}
    assert catalogue["tools/echo/letters"]["meaning"] == "letters of an answer"
    assert ("update/declared" in catalogue) == (algorithm == "chatty")
