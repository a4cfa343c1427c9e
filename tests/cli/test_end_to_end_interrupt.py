"""Ctrl-C or SIGTERM in the middle of training: exit code 130, one sentence saying how to go on, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from agent_r1_core.runs.run import Run

ENDLESS = "training.steps=100000"
PATIENCE = 120.0
"""Seconds after which a child that does not do its part is given up."""


def start(warm: Path, keys: list[str]) -> subprocess.Popen[str]:
    call = [warm, "-c", "from agent_r1_cli.main import main; main()", "train", "default", *keys]
    environment = {key: value for key, value in os.environ.items() if key != "AGENT_R1_DEBUG"}
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def wait_for_steps(count: int, child: subprocess.Popen[str]) -> None:
    deadline, file = time.monotonic() + PATIENCE, Path("runs/small/metrics.jsonl")
    while child.poll() is None and time.monotonic() < deadline:
        if file.exists() and file.read_text().count("\n") >= count:
            return
        time.sleep(0.02)


def test_an_interrupted_run_says_how_to_go_on_and_does(succeed, changed, warm):
    child = start(warm, changed(ENDLESS))
    wait_for_steps(2, child)
    child.send_signal(signal.SIGINT)
    answer, narration = child.communicate(timeout=PATIENCE)
    run = Run.open("runs/small")
    made = [line["step"] for line in run.metrics()]
    assert child.returncode == 130, narration
    assert len(made) >= 2
    assert made == list(range(1, len(made) + 1))
    last = narration.splitlines()[-1]
    assert last == f"stopped after step {len(made)} of 100000; continue with: agent-r1 train runs/small --resume"
    assert "Traceback" not in narration
    assert answer == ""
    saved = run.checkpoints.latest()
    assert saved is not None
    assert saved.step == len(made)
    done = succeed("train", "runs/small", "--resume", f"training.steps={len(made) + 1}")
    assert f"\nresuming runs/small after step {len(made)} of {len(made) + 1}\n" in done.stderr
    assert [line["step"] for line in run.metrics()] == [*made, len(made) + 1]
    assert run.trajectory_steps() == [*made, len(made) + 1]


def test_an_impatient_second_interruption_leaves_a_run_that_goes_on_too(succeed, changed, warm):
    child = start(warm, changed(ENDLESS, "checkpoint.every=1", "training.epochs=3"))
    wait_for_steps(2, child)
    child.send_signal(signal.SIGTERM)
    child.send_signal(signal.SIGINT)
    _, narration = child.communicate(timeout=PATIENCE)
    run = Run.open("runs/small")
    saved = run.checkpoints.latest()
    assert child.returncode == 130, narration
    assert "Traceback" not in narration
    assert saved is not None
    assert narration.splitlines()[-1].startswith(f"stopped after step {saved.step} of 100000; continue with: ")
    succeed("train", "runs/small", "--resume", f"training.steps={saved.step + 1}")
    assert [line["step"] for line in run.metrics()] == list(range(1, saved.step + 2))
