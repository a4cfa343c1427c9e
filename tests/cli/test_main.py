"""The command line as a whole: help, version, how failures are told, what is imported."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from agent_r1_cli.guard import guarded
from agent_r1_cli.main import build_app
from agent_r1_cli.recipe_arguments import resolve_for_model
from agent_r1_core import __version__
from agent_r1_core.config import load_config
from agent_r1_core.errors import AgentR1Error, ConfigError, UnknownComponent
from agent_r1_core.plugins import Registry
from agent_r1_core.runs.run import Run
from agent_r1_core.training.api import resolve

HEAVY = {"torch", "transformers", "numpy", "pyarrow", "tokenizers", "rich", "ray"}


def test_the_version_is_printed_every_command_is_in_the_help_and_recipes_stand_before_keys(agent_r1):
    assert agent_r1("--version").stdout == f"agent-r1 {__version__}\n"
    for words in ((), ("no-such-command",), ("plugins", "list", "--no-such-option")):
        assert agent_r1(*words).exit_code == 2
    page = agent_r1("--help").stdout
    assert "Where to begin:" in page
    listed = page.partition("Commands:")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines() if line] == [*COMMANDS, "wiki"]
    usage = agent_r1("train", "--help").stdout.splitlines()
    assert usage[0] == "Usage: root train [OPTIONS] [RECIPE] [KEY=VALUE]..."
    assert "  agent-r1 train my_recipe.yaml --dry-run  see what a recipe would do" in usage


@pytest.mark.slow
def test_closed_streams_end_no_command():
    command = [sys.executable, "-c", "from agent_r1_cli.main import main; main()", "train", "--dry-run"]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "\ntraining:\n" in done.stdout
    closed = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command], check=False)
    assert closed.returncode == 0


@pytest.mark.parametrize("name", ["2024/7", "null/1e3", "a: b/x"])
def test_a_run_whose_path_looks_like_a_number_is_found(tmp_path, name):
    resolved = load_config("default")
    Run.create(*name.split("/"), resolved.dump(), resolved.registry.to_json()).close()
    assert resolve_for_model(None, name).config.model.name == str(tmp_path / name)
    settings = resolve(name, [], resume=True).config.run
    assert f"{settings.dir}/{settings.name}" == name


def interrupted_again() -> KeyboardInterrupt:
    """A second Ctrl-C, while what the first one interrupted was ending."""
    again = KeyboardInterrupt()
    again.__context__ = RuntimeError("closing")
    again.__context__.__context__ = KeyboardInterrupt("stopped after step 3; continue so")
    return again


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
        (interrupted_again(), 130, "stopped after step 3; continue so\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "cache/index"),
            1,
            "error: cache/index could not be written (No space left on device); free space or allow writing there\n",
        ),
    ],
)
def test_an_expected_failure_is_its_sentence_and_its_code(monkeypatch, error, code, text):
    monkeypatch.delenv("AGENT_R1_DEBUG", raising=False)
    result = CliRunner().invoke(failing(error), [])
    assert (result.exit_code, result.stderr) == (code, text)


def test_an_unexpected_failure_names_the_line_of_the_author_and_hints_at_debug(monkeypatch):
    monkeypatch.delenv("AGENT_R1_DEBUG", raising=False)
    result = CliRunner().invoke(failing(ZeroDivisionError("division by zero")), [])
    assert result.exit_code == 1
    here = f"{Path(__file__).name}, line {failing.__code__.co_firstlineno + 5}"
    assert result.stderr == (
        f"error: ZeroDivisionError: division by zero ({here}); "
        "this is unexpected: add --debug to the command to see where it happened\n"
    )
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("place", [0, 2, 4])
def test_the_debug_option_works_before_and_after_the_command(tmp_path, place):
    environment = {key: value for key, value in os.environ.items() if key != "AGENT_R1_DEBUG"}
    call = [sys.executable, "-c", "from agent_r1_cli.main import main; main()"]
    arguments = ["plugins", "list", "-p", str(tmp_path / "gone.py")]
    words = [*arguments[:place], "--debug", *arguments[place:]]
    loud = subprocess.run([*call, *words], capture_output=True, text=True, env=environment)
    assert loud.returncode == 2
    assert loud.stderr.startswith("Traceback")
    gone = tmp_path / "gone.py"
    assert loud.stderr.endswith(f"error: plugin file {gone} does not exist; give the path of a .py file\n")


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("plugins", "list"), ("plugins", "list", "--json"), ("runs",), ("agent-r1", "train", "d")],
)
def test_light_commands_and_the_tab_key_import_nothing_heavy_and_no_component(arguments):
    with Run.create("runs", "mine", {}, []) as run:
        run.append_metrics(1, {"reward/mean": 0.5})
        run.write_evaluation("step_000001", {"metrics": {"exact_match": {"mean": 0.9, "n": 20}}}, 1)
    call = [sys.executable, "-X", "importtime", "-c", "from agent_r1_cli.main import main; main()"]
    tab = {"_AGENT_R1_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(arguments), "COMP_CWORD": "2"}
    environment = {**os.environ, **tab} if arguments[0] == "agent-r1" else None
    done = subprocess.run([*call, *arguments], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout
    lines = [line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")]
    modules = {parts[-1].strip() for parts in lines}
    assert "agent_r1_cli.main" in modules
    targets = {record.spec.target.partition(":")[0] for record in Registry.discover().components()}
    assert targets
    slow = {"agent_r1_core.trajectory", "asyncio", "pydantic"} if "--help" in arguments else set()
    assert modules & (HEAVY | targets | slow) == set()


COMMANDS = (
    *("train", "eval", "compare", "rollout", "play", "runs", "metrics"),
    *("new", "plugins", "league", "replay", "reproduce", "serve", "view"),
)


@pytest.mark.parametrize("command", ["", *COMMANDS, "plugins list", "plugins show", "plugins doctor"])
def test_help_reads_well_in_eighty_columns(agent_r1, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    text = agent_r1(*command.split(), "--help").stdout
    assert max(map(len, text.splitlines())) <= 80, "examples keep their lines, so they must fit"
    assert "<str>" not in text
    assert "list[" not in text
    assert "..." not in text.partition("Commands:")[2], "summaries are not cut"


def offered(line: str, **variables: str) -> list[str]:
    """What bash shows for a line whose last word is incomplete."""
    words = line.split(" ")
    environment = {"_AGENT_R1_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    result = CliRunner().invoke(build_app(), [], prog_name="agent-r1", env=environment)
    assert result.exit_code == 0, result.output
    return result.stdout.split()


def test_the_tab_key_completes_commands_recipes_runs_and_components(tmp_path):
    run = tmp_path / "runs" / "mine"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    assert offered("agent-r1 pl") == ["play", "plugins"]
    assert offered("agent-r1 train --re") == ["--resume"]
    assert offered("agent-r1 train calc") == ["calculator"]
    assert offered("agent-r1 train paper/miniwiki-p") == ["paper/miniwiki-ppo"]
    assert offered("agent-r1 train ru") == offered("agent-r1 eval --model ru") == ["runs/mine"]
    (tmp_path / "runs-of-others").mkdir()
    assert offered("agent-r1 view ru") == offered("agent-r1 runs ru") == ["runs", "runs/mine", "runs-of-others"]
    assert "algorithm=grpo" in offered("agent-r1 train default algo")
    assert offered("agent-r1 train default algorithm = pp") == ["ppo"], "bash splits words at ="
    assert offered("agent-r1 train default pp") == [], "a recipe stands first"
    assert offered("agent-r1 plugins show exact") == ["exact_match"]
    assert offered("agent-r1 plugins show --kind engine v") == ["vllm"]
    assert offered("agent-r1 plugins list --kind al") == ["algorithm"]
    assert offered("agent-r1 plugins list -P wiki") == ["wiki_search"]
    assert offered("agent-r1 new al") == ["algorithm"]


def test_metrics_say_what_a_name_means(agent_r1, refuse):
    assert "falls before a collapse" in agent_r1("metrics", "health/group_std").stdout
    assert json.loads(agent_r1("metrics", "time/step", "--json").stdout)["metrics"] == [
        {"name": "time/step", "unit": "s", "better": "lower", "meaning": "the whole step, evaluation included"}
    ]
    refuse(2, "no metric has 'nonsense' in its name", "metrics", "nonsense")
