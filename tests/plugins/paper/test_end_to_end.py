"""`agent-r1 reproduce` with real trainings: killed in the middle it goes on, and ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agent_r1_paper.reproduce_command import reproduce

from agent_r1_core.errors import RunError
from agent_r1_core.runs.lock import RunLock
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import CommandContract

Invoke = Callable[..., Any]

PATIENCE = 180.0
"""Seconds after which a process that does not do its part is given up."""


class TestReproduce(CommandContract):
    component = reproduce


@pytest.fixture
def keys(noise: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys that make a cell quick and repeatable bit for bit; in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    values = {
        "model.name": noise,
        "deterministic": "true",
        "evaluation.size": 3,
        "rewards": "[exact_match, {name: format, weight: 0.2}]",
        "engine.max_new_tokens": 8,
        "env.max_turns": 2,
        "training.steps": 6,
        "training.tasks_per_step": 4,
        "checkpoint.every": 1,
    }
    return [f"{key}={value}" for key, value in values.items()]


CALL = "from agent_r1_cli.main import main; main()"
AT_STEP_2 = """
import os, time
from agent_r1_core.runs.run import Run
from agent_r1_core.work.running import _running

append = Run.append_metrics

def append_and_signal(run, step, metrics):
    append(run, step, metrics)
    if (run.path.name, step) == ({name!r}, 2):
        os.kill({process}, {number})
        while not _running.terminated:
            time.sleep(0.01)

Run.append_metrics = append_and_signal
from agent_r1_cli.main import main; main()
"""
"""A training that sends `reproduce` a signal after its second step, and goes no further before it hears of that."""


def signalled(name: str, number: int) -> str:
    """The call of a `reproduce` that gets a signal in the middle of this run."""
    training = f"{AT_STEP_2!r}.format(name={name!r}, process=os.getpid(), number={int(number)})"
    return f"import os\nfrom agent_r1_paper import runner\nrunner._CALL = {training}\n{CALL}"


def start(python: Path, *arguments: str, code: str = CALL) -> subprocess.Popen[str]:
    call = [python, "-c", code, "reproduce", *arguments]
    environment = {key: value for key, value in os.environ.items() if key != "AGENT_R1_DEBUG"}
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def wait_until_free(run: Path) -> None:
    """Until the training has ended that a killed process leaves."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress(RunError):
            return RunLock(run).release()
        time.sleep(0.02)


def scores(folder: Path) -> list[dict[str, Any]]:
    """What the table says of every row that ran."""
    rows = json.loads((folder / "table3.json").read_text())["rows"]
    return [{key: row[key] for key in ("row", "status", "ours", "by_seed")} for row in rows]


@pytest.mark.slow
def test_a_matrix_that_is_killed_and_interrupted_ends_as_an_undisturbed_one(
    agent_r1: Invoke, keys: list[str], warm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(warm))
    asked = ["table3", *keys, "--seeds", "1", "--row", "ppo", "--row", "grpo"]
    whole = start(warm, *asked, "--dir", "whole")
    answer, narration = whole.communicate(timeout=PATIENCE)
    assert whole.returncode == 0, narration
    assert answer == Path("whole/table3.md").read_text()
    assert Path("whole/table3.png").read_bytes().startswith(b"\x89PNG")

    killed = start(warm, *asked, "--dir", "broken", code=signalled("ppo-0", signal.SIGKILL))
    killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    wait_until_free(Path("broken/runs/ppo-0"))
    assert list(Path("broken/cells").glob("*.json")) == []

    interrupted = start(warm, *asked, "--dir", "broken", "--resume", code=signalled("grpo-0", signal.SIGINT))
    _, narration = interrupted.communicate(timeout=PATIENCE)
    assert interrupted.returncode == 130, narration
    last = narration.splitlines()[-1]
    assert last.startswith("stopped in grpo-0, with 1 of 2 cells finished; continue with: agent-r1 reproduce table3 ")
    assert "Traceback" not in narration
    finished = Path("broken/cells/ppo-0.json").read_bytes()

    done = agent_r1(*shlex.split(last.partition("continue with: agent-r1 ")[2]))
    assert done.exit_code == 0, done.stderr
    assert done.stderr.splitlines()[0].startswith("grpo-0 begins, 2 of 2, about ")
    assert scores(Path("broken")) == scores(Path("whole"))
    assert Path("broken/cells/ppo-0.json").read_bytes() == finished
    for name in ("ppo-0", "grpo-0"):
        runs = [Run.open(Path(folder, "runs", name)) for folder in ("whole", "broken")]
        assert [line["step"] for line in runs[1].metrics()] == [1, 2, 3, 4, 5, 6]
        assert runs[0].evaluations().keys() == runs[1].evaluations().keys()
        assert (runs[0].model / "model.safetensors").read_bytes() == (runs[1].model / "model.safetensors").read_bytes()
        said = Path("broken/logs", f"{name}.log").read_text()
        assert said.count("$ agent-r1 train") == 2
        assert said.count("$ agent-r1 eval") == 1


@pytest.mark.slow
def test_a_cell_that_fails_is_reported_with_its_sentence_and_its_log(agent_r1: Invoke, keys: list[str]) -> None:
    gone = [text for text in keys if not text.startswith("model.name=")]
    done = agent_r1("reproduce", "table4", *gone, "model.name=./gone", "--seeds", 1, "--row", "ppo", "--dir", "m")
    assert done.exit_code == 1
    begins, failed, *rest = done.stderr.splitlines()
    assert begins.startswith("ppo-0 begins, 1 of 1, about ")
    assert failed.startswith("ppo-0 failed after ")
    assert failed.endswith("give the folder that holds config.json (see m/logs/ppo-0.log)")
    assert rest[-1] == "1 of 1 cells have not run; repeat the command with --resume"
    assert re.search(r"- PPO: not run\. ppo-0: model '\S+/gone' is neither a Hugging Face folder", done.stdout)
    assert Path("m/logs/ppo-0.log").read_text().startswith("$ agent-r1 train paper/miniwiki-ppo ")
    assert json.loads(Path("m/table4.json").read_text())["rows"][0]["status"] == "not run"


@pytest.mark.slow
def test_shapes_of_rollouts_are_scored_by_their_trainings(
    agent_r1: Invoke, keys: list[str], warm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(warm))
    few = [key for key in keys if not key.startswith(("training.", "evaluation.size"))]
    rows = ["--row", "search-16x4", "--row", "search-reused"]
    done = agent_r1("reproduce", "shaping", *few, "tasks.eval.held_out.size=5", *rows, "--seeds", 1, "--dir", "m")
    assert done.exit_code == 0, done.stderr
    report = json.loads(Path("m/shaping.json").read_text())
    (first, reused) = (row for row in report["rows"] if row["status"] == "done")
    assert first["ours"]["held-out tasks"]["n"] == 5
    assert first["ours"]["held-out tasks"] == first["ours"]["average"], "the share of 5 tasks, by Wilson"
    assert [cell["file"] for cell in reused["cells"]] == ["runs/search-reused-0/evaluations/step_000002.json"]
    assert [claim["holds"] for claim in report["claims"] if claim["holds"] is not None] == [False]
    header = next(line for line in done.stdout.splitlines() if line.startswith("| method"))
    assert header == "| method | held-out tasks (paper) | held_out (ours) | runs |"
    assert Path("m/logs/search-16x4-0.log").read_text().count("$ agent-r1 ") == 1, "no evaluation of its own"


def test_a_dry_run_prints_commands_that_can_be_run_and_touches_nothing(agent_r1: Invoke, keys: list[str]) -> None:
    before = list(Path.cwd().iterdir())
    done = agent_r1("reproduce", "table4", *keys, "--seeds", 2, "--dry-run", "--json")
    assert done.exit_code == 0, done.stderr
    plan = json.loads(done.stdout)
    names = ["ppo", "ppo-no_advantage_mask", "ppo-no_masks", "grpo", "grpo-no_loss_mask"]
    assert [cell["cell"] for cell in plan["cells"]] == [f"{name}-{seed}" for seed in (0, 1) for name in names]
    assert plan["seconds"] == sum(cell["seconds"] for cell in plan["cells"])
    for cell in plan["cells"]:
        train, score = (shlex.split(command) for command in cell["commands"])
        assert agent_r1(*train[1:], "--dry-run").exit_code == 0
        assert score == ["agent-r1", "eval", f"runs/reproduce-tiny-table4/runs/{cell['cell']}", "--json"]
    shown = agent_r1("reproduce", "table3", "--dry-run", *keys)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.splitlines()[-1].startswith("18 cells, about ")
    assert list(Path.cwd().iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table5"], "there is no table 'table5'; the tables are table3, table4, shaping"),
        (["table3", "--scale", "huge"], "there is no scale 'huge'; the scales are tiny, paper"),
        (["shaping", "--scale", "paper"], "shaping has no scale 'paper', only tiny"),
        (["table3", "--row", "dpo"], "table3 has no row 'dpo'; its rows are base_tool_call, naive_rag"),
        (["shaping", "training.steps=3"], "'training.steps=3': training.steps is what sets the row lake-parts apart"),
        (["table3", "seed=1"], "override 'seed=1': the matrix decides seed; use --seeds"),
        (["table3", "training.stps=1"], "did you mean training.steps?"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(
    agent_r1: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = agent_r1("reproduce", *arguments)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("error: ") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_tab_key_completes_tables_scales_and_rows(agent_r1: Invoke) -> None:
    for words, offered in {
        "agent-r1 reproduce tab": ["table3", "table4"],
        "agent-r1 reproduce table3 --scale p": ["paper"],
        "agent-r1 reproduce table3 --row grpo": ["grpo", "grpo-no_loss_mask"],
    }.items():
        keys = {"_AGENT_R1_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert agent_r1(prog_name="agent-r1", env=keys).stdout.split() == offered
