"""`agent-r1 runs`: what a row says, in which order, and what is said where there is nothing to say."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_r1_cli import runs_command
from agent_r1_cli.runs_command import age
from agent_r1_core.runs.files import write_json
from agent_r1_core.runs.run import Run

NOW = 1_700_000_000.0

FAILURES = {"episodes": 3, "of": 203, "reason": "the prompt does not fit", "alike": 3}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Three runs in the current folder's `runs`: an old one that has ended, one that trains, one that is damaged."""
    monkeypatch.setattr(runs_command.time, "time", lambda: NOW)
    config = {"training": {"steps": 25}, "algorithm": {"name": "ppo"}, "tasks": {"x": 1}, "sources": {}}
    for name, began in (("old", "2023-11-12T10:00:00+0000"), ("new", "2023-11-14T22:03:20+0000")):
        run = Run.create("runs", name, config, [])
        for step, reward in enumerate((0.25, math.nan, 1.0), start=1):
            run.append_metrics(step, {"reward/mean": reward, "time/step": 30.0})
        _date(run.path, began)
        if name == "old":
            estimate = {"mean": 0.96, "low": 0.923, "high": 0.979, "method": "wilson", "n": 200, "asked": 203}
            result = {"metrics": {"exact_match": estimate}, "failures": FAILURES}
            run.write_evaluation("step_000003", result, 3)
            run.append_event(3, "finished", "done")
            run.close()
    damaged = Run.create("runs/more", "bad", config, [])
    damaged.close()
    _date(damaged.path, "2023-11-13T22:13:20+0000")
    (damaged.path / "config.yaml").write_text("training: [")
    damaged.path.rename(damaged.path.with_name("bad\x1b[2J"))
    with run:  # it holds its lock
        yield tmp_path


def _date(run: Path, began: str) -> None:
    write_json(run / "run.json", json.loads((run / "run.json").read_text()) | {"created": began})


def test_the_newest_come_first_each_on_a_line_and_programs_get_all_that_is_known(succeed, home, agent_r1):
    result = succeed("runs")
    lines = [line.split("  ") for line in result.stdout.splitlines()]
    assert [[cell.strip() for cell in line if cell] for line in lines[:4]] == [
        ["run", "state", "step", "best", "reward", "time", "age"],
        ["new", "training", "3/25", "-", "▁ █", "1:30", "10 min"],
        [r"bad\x1b[2J", "interrupted", "-/-", "-", "-", "24 h"],
        ["old", "finished", "3/25", "exact_match 0.960 [0.923, 0.979] (200 of 203)", "▁ █", "1:30", "2 days"],
    ]
    assert result.stdout.splitlines()[4].startswith(r"bad\x1b[2J: ")
    assert "config.yaml is damaged" in result.stdout.splitlines()[4]
    assert result.stdout.splitlines()[5] == (
        "old: of exact_match, failed and not scored: 3 of 203 episodes (the prompt does not fit)"
    )
    answer = json.loads(agent_r1("runs", "runs/old", "--json").stdout, parse_constant=pytest.fail)
    (run,) = answer["runs"]
    assert (answer["schema"], run["id"], run["algorithm"], run["steps"]) == (1, "old", "ppo", 25)
    assert run["best"] == {
        **{"metric": "exact_match", "value": 0.96, "low": 0.923, "high": 0.979, "n": 200, "asked": 203, "step": 3},
        "failures": FAILURES | {"at_least": False},
    }
    assert run["curve"] == [[1, 0.25], [2, "NaN"], [3, 1.0]]
    assert run["path"] == str(home / "runs" / "old")


def test_a_narrow_terminal_loses_columns_and_the_middle_of_long_names(home, monkeypatch):
    header, *lines = _on_a_terminal(monkeypatch, 83)
    assert header.split() == ["run", "state", "best", "age"]
    assert "exact_match 0.960 [0.923, 0.979] (200 of 203)" in lines[2]
    for name in ("old", "new"):
        (home / "runs" / name).rename(home / "runs" / f"{'countdown-qwen' * 6}-{name}")
    header, *lines = _on_a_terminal(monkeypatch, 93)
    assert header.split() == ["run", "state", "best"]
    names = ["countdown-qw...down-qwen-new", "bad\\x1b[2J", "countdown-qw...down-qwen-old"]
    assert [line.split()[0][:12] for line in lines[:3]] == [name[:12] for name in names]
    assert [line.split()[0][-8:] for line in lines[:3]] == [name[-8:] for name in names]
    assert lines[2].endswith("exact_match 0.960 [0.923, 0.979] (200 of 203)")
    assert max(map(len, (header, *lines[:3]))) <= 93


def _on_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    """The lines of `agent-r1 runs` in a terminal."""
    shown = io.StringIO()
    shown.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.setenv("COLUMNS", str(width))
    runs_command.runs()
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).splitlines()


def test_without_runs_it_says_how_to_get_one(agent_r1):
    result = agent_r1("runs")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("there are no runs in runs; `agent-r1 train` makes one")
    assert json.loads(agent_r1("runs", "--json").stdout) == {"schema": 1, "runs": []}
    missing = agent_r1("runs", "gone")
    assert missing.exit_code != 0
    assert missing.stderr == (
        "error: there is no gone; give a run or a folder with runs, such as the run.dir of a training\n"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (2 * 86400, "2 days")]
)
def test_ages(seconds, text):
    assert age(seconds) == text
