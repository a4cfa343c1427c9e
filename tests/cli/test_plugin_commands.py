"""Commands of installed plugins: listed, called, explained; agent-r1's own are never replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_cli.plugin_commands import offered
from agent_r1_core.plugins import Registry

PLUGIN = """\
from agent_r1_core import CommandSpec, hookimpl

AGENT_R1_PLUGIN_API = 1

@hookimpl
def register_commands():
    return [
        CommandSpec("report count", "thirds_commands:count", "Count."),
        CommandSpec("report gone", "thirds_commands:gone", "Not there."),
        CommandSpec("train", "thirds_commands:count", "Never called."),
    ]
"""
COMMANDS = """\
from agent_r1_core import ConfigError

def count(number: int) -> None:
    \"\"\"Count to a number.\"\"\"
    if number < 1:
        raise ConfigError(f"nobody counts to {number}; give a number from 1 on")
    print(*range(1, number + 1))
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[..., Path]) -> Path:
    """A folder on the path in which a distribution with commands is installed."""
    monkeypatch.setenv("AGENT_R1_CACHE", str(tmp_path / "cache"))
    site = install("thirds", thirds=PLUGIN)
    (site / "thirds_commands.py").write_text(COMMANDS)
    return site


@pytest.mark.usefixtures("site")
def test_a_command_is_listed_called_and_explained_its_failures_are_sentences_and_an_own_command_stays(agent_r1):
    assert "report     Commands of the plugin thirds." in agent_r1("--help").stdout
    assert "count  Count." in agent_r1("report").output
    assert agent_r1("report", "count", "3").stdout == "1 2 3\n"
    assert "Count to a number." in agent_r1("report", "count", "--help").stdout
    assert "target:    thirds_commands:count" in agent_r1("plugins", "show", "report count").stdout
    refused = agent_r1("report", "count", "0")
    assert (refused.exit_code, refused.stderr) == (2, "error: nobody counts to 0; give a number from 1 on\n")
    assert "agent-r1 train ppo" in agent_r1("train", "--help").stdout
    assert "No such command 'reprot'" in agent_r1("reprot").stderr
    gone = agent_r1("report", "gone")
    assert (gone.exit_code, gone.stdout) == (3, "")
    assert "command 'thirds/report gone' (thirds 1.0) cannot be loaded: 'thirds_commands:gone' has no" in gone.stderr
    checked = agent_r1("plugins", "doctor").stdout
    assert "command 'train' cannot be called: agent-r1 has one of its own; rename it" in checked


def test_plugins_that_could_not_be_read_are_tried_again_and_unknown_ones_a_sentence(site, agent_r1, monkeypatch):
    (site / "thirds_thirds.py").write_text("import missing_here\n" + PLUGIN)
    assert not any(name.startswith("report") for name in offered())
    (site / "missing_here.py").touch()
    assert agent_r1("report", "count", "2").stdout == "1 2\n"
    monkeypatch.setenv("AGENT_R1_DISABLE_PLUGINS", "thrids")
    refused = agent_r1("--help")
    assert refused.exit_code == 2
    assert refused.stderr == "error: no plugin called 'thrids' can be disabled; did you mean 'thirds'?\n"


def test_help_reads_plugins_again_only_when_something_changed(site, monkeypatch):
    read: list[int] = []
    discover = Registry.discover
    monkeypatch.setattr(Registry, "discover", lambda: read.append(1) or discover())
    assert offered() == offered()
    assert offered()["report count"] == {"summary": "Count.", "plugin": "thirds"}
    assert len(read) == 1
    (site / "thirds_thirds.py").write_text(PLUGIN.replace("report count", "report numbers"))
    assert "report numbers" in offered()
    (site / "thirds-1.0.dist-info" / "entry_points.txt").unlink()
    (site / "thirds-1.0.dist-info").rename(site / "elsewhere-1.0.dist-info")
    assert not any(name.startswith("report") for name in offered())
    assert len(read) == 3
