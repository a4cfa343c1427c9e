"""Tools that misbehave in a command's own process: a run that died in one says which, and a command ends (LAW 9)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent_r1_core.runs.run import Run

BAD = Path(__file__).parents[1] / "fixtures/end_to_end/bad_tools.py"


@pytest.mark.slow
def test_a_run_that_died_in_a_tool_says_which_and_goes_on(succeed, changed):
    keys = changed("tools=[dying]", "env.format=always", "tasks.eval.size=2", "training.steps=1")
    assert command("train", *keys, "-p", BAD).returncode == 7
    done = succeed("train", "runs/small", "--resume")
    assert "the process of this run died while calls of tools ran in it: dying (episode " in done.stderr
    assert "give that tool isolation: process" in done.stderr
    assert [line["step"] for line in Run.open("runs/small").metrics()] == [1]


@pytest.mark.slow
def test_a_command_ends_after_its_answer_whatever_a_tool_left_running(tmp_path):
    """An async tool that refuses every cancellation leaves a thread, a call of the loop's executor, and a forked
    process that holds the output: whoever reads that sees its end all the same."""
    script = tmp_path / "actions.txt"
    script.write_text("/clinging {}\n<answer>42</answer>\n")
    keys = ["tools=[{name: clinging, timeout: 0.2}]", "--question", "What is 6 * 7?", "--answer", "42"]
    ended = command("play", "calculator", *keys, "--script", script, "-p", BAD, hurried=True)
    assert ended.returncode == 0, ended.stderr
    assert "the episode is over: terminated (answer)" in ended.stdout
    assert "leaving now: a plugin left thread no-daemon" in ended.stderr
    assert "Traceback" not in ended.stderr


def command(*arguments: object, hurried: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own; `hurried` waits less for what does not end."""
    hurry = (
        "from agent_r1_cli import main; from agent_r1_core.work import running; "
        "main.LEAVE_SECONDS = running.END_SECONDS = 0.3; "
    )
    code = f"{hurry if hurried else ''}from agent_r1_cli.main import main; main()"
    words = [sys.executable, "-c", code, *(str(argument) for argument in arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
