"""The command line as a whole: help, version, how failures are told, what is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from agent_r1_cli.guard import guarded
from agent_r1_core import __version__
from agent_r1_core.errors import AgentR1Error, ConfigError, UnknownComponent
from agent_r1_core.plugins import Registry

Run = Callable[..., Any]
HEAVY = {"torch", "transformers", "numpy", "pyarrow", "tokenizers", "rich"}


def test_help_tells_a_newcomer_where_to_begin(agent_r1: Run) -> None:
    result = agent_r1("--help")
    assert result.exit_code == 0
    assert "Where to begin:" in result.stdout
    assert "agent-r1 train " in result.stdout
    assert "agent-r1 plugins list" in result.stdout


def test_the_version_is_printed(agent_r1: Run) -> None:
    assert agent_r1("--version").stdout == f"agent-r1 {__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("no-such-command",), ("plugins", "list", "--no-such-option")])
def test_wrong_usage_exits_with_2(agent_r1: Run, arguments: tuple[str, ...]) -> None:
    assert agent_r1(*arguments).exit_code == 2


def failing(error: BaseException) -> typer.Typer:
    """An app with one command that fails."""
    app = typer.Typer()

    def fail() -> None:
        raise error

    app.command("fail")(guarded(fail))
    return app


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (AgentR1Error("the work failed; do this"), 1, "error: the work failed; do this\n"),
        (ConfigError("one key\nanother key"), 2, "error: one key\nerror: another key\n"),
        (UnknownComponent("no such tool"), 3, "error: no such tool\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_an_expected_failure_is_its_sentence_and_its_code(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, text: str
) -> None:
    monkeypatch.delenv("AGENT_R1_DEBUG", raising=False)
    result = CliRunner().invoke(failing(error), [])
    assert (result.exit_code, result.stderr) == (code, text)


def test_an_unexpected_failure_hints_at_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENT_R1_DEBUG", raising=False)
    result = CliRunner().invoke(failing(ZeroDivisionError("division by zero")), [])
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "error: ZeroDivisionError: division by zero; this is unexpected: run `agent-r1 --de"
    )
    assert "Traceback" not in result.stderr


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_R1_DEBUG", "1")
    result = CliRunner().invoke(failing(ConfigError("one key")), [])
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("error: one key\n")


def test_the_debug_option_reaches_the_command(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "AGENT_R1_DEBUG"}
    call = [sys.executable, "-c", "from agent_r1_cli.main import main; main()"]
    arguments = ["plugins", "list", "-p", str(tmp_path / "gone.py")]
    quiet = subprocess.run([*call, *arguments], capture_output=True, text=True, env=environment)
    loud = subprocess.run([*call, "--debug", *arguments], capture_output=True, text=True, env=environment)
    assert quiet.returncode == loud.returncode == 2
    assert "Traceback" in loud.stderr
    assert quiet.stderr == f"error: plugin file {tmp_path / 'gone.py'} does not exist; give the path of a .py file\n"


@pytest.mark.parametrize("arguments", [("--help",), ("plugins", "list"), ("plugins", "list", "--json")])
def test_light_commands_import_nothing_heavy_and_no_component(arguments: tuple[str, ...]) -> None:
    call = [sys.executable, "-X", "importtime", "-c", "from agent_r1_cli.main import main; main()", *arguments]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    lines = [line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")]
    modules = {parts[-1].strip() for parts in lines}
    assert "agent_r1_cli.main" in modules
    targets = {record.spec.target.partition(":")[0] for record in Registry.discover().components()}
    assert targets
    assert modules & (HEAVY | targets) == set()


def test_discovery_alone_does_without_pydantic() -> None:
    code = (
        "import sys; from agent_r1_core.plugins import Registry; Registry.discover(); print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
