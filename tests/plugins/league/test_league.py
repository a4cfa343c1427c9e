"""`agent-r1 league` from end to end, with an algorithm that only a plugin file has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_r1_league.league_command import league

from agent_r1_core.testing import CommandContract


class TestLeague(CommandContract):
    component = league


PLUGIN = '''
from agent_r1_core import Algorithm, AlgorithmSpec, hookimpl
from agent_r1_core.contracts.algorithm import AlgorithmConfig
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.likelihood import MaximumLikelihood

AGENT_R1_PLUGIN_API = 1

class Against(MaximumLikelihood):
    """Learns the opposite of what pays."""
    def advantages(self, batch):
        return Advantages(-(batch.returns - batch.returns.mean())[:, None] * batch.action_mask)

class Broken(Algorithm):
    Config = AlgorithmConfig
    def advantages(self, batch):
        raise KeyError("nothing")
    def loss(self, tokens):
        raise KeyError("nothing")

@hookimpl
def register_algorithms():
    return [AlgorithmSpec("against", f"{__name__}:Against", ""), AlgorithmSpec("broken", f"{__name__}:Broken", "")]
'''


@pytest.fixture
def invoke(
    agent_r1: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """Runs the command in an empty folder, and gives its JSON."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(PLUGIN)

    def run(*arguments: str) -> dict[str, Any]:
        fixed = ["league", "--seeds", "2", "--share", "0.2", "--dir", "out", "-p", "mine.py", "--json"]
        result = agent_r1(*fixed, *arguments)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run


def test_a_stranger_takes_part_by_being_registered(invoke: Callable[..., dict[str, Any]]) -> None:
    answer = invoke("dr_grpo", "against", "broken", "--world", "bifurcation", "--processes", "1")
    rows = {row["row"]: row for row in answer["rows"] if row["world"] == "bifurcation"}
    assert set(rows) == {"exact advantages", "dr_grpo", "against"}
    assert "raised in advantages" in answer["left_out"]["broken"]
    assert rows["against"]["angle_of_all"]["mean"] > 90 > rows["dr_grpo"]["angle_of_all"]["mean"]
    assert rows["against"]["learned"]["mean"] < 0 < rows["dr_grpo"]["learned"]["mean"]
    assert rows["dr_grpo"]["learned"]["mean"] < rows["exact advantages"]["learned"]["mean"]
    assert all(row["n"] == 2 and row["learned"]["low"] <= row["learned"]["high"] for row in rows.values())
    assert {file.suffix for file in Path("out").iterdir()} >= {".md", ".json"}
    assert "| dr_grpo | 2 |" in Path("out", "league.md").read_text()


@pytest.mark.slow
def test_processes_change_nothing(invoke: Callable[..., dict[str, Any]]) -> None:
    words = ("rloo", "against", "ppo", "--world", "key", "--share", "0.1", "--processes")
    one, two = (invoke(*words, count) for count in ("1", "2"))
    assert one == two
    kinds = {"angle token", "angle_of_all", "bias2 token", "variance token"}
    assert {found["by"] for found in two["predictions"]} == kinds
