"""A run whose Ray is killed says so in one sentence, records its end, and leaves no process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_r1_core.distributed.lifeline import _below
from agent_r1_core.runs.run import Run

SETTINGS = (
    *("threads=1", "model.dtype=float32", "tasks.train.size=8", "tasks.eval.size=2", "training.steps=500"),
    *("training.tasks_per_step=1", "training.samples_per_task=2", "checkpoint.best=null"),
    *("evaluation={every: 0, at_start: false, at_end: false}", "distributed={rollout_workers: 1}"),
)


def _named(process: int, name: str) -> bool:
    return f"/{name}\0" in Path("/proc", str(process), "cmdline").read_text(errors="replace")


@pytest.mark.slow
@pytest.mark.parametrize("service", ["raylet", "gcs_server"])
def test_a_lost_service_of_ray_is_one_sentence_and_an_end(tmp_path: Path, service: str) -> None:
    start = "from agent_r1_cli.main import main; main()"
    call = [sys.executable, "-c", start, "train", "default", f"run.dir={tmp_path}", "run.name=run", *SETTINGS]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as command:
        assert command.stdout is not None
        while not (tmp_path / "run" / "metrics.jsonl").exists():
            assert command.poll() is None, command.stdout.read()
            time.sleep(0.05)
        family = [os.pidfd_open(process) for process in _below(command.pid)]
        os.kill(next(process for process in _below(command.pid) if _named(process, service)), signal.SIGKILL)
        said = command.stdout.read()
    assert command.returncode == 1
    assert [line for line in said.splitlines() if "error" in line and "continue with --resume" in line], said
    assert Run.open(tmp_path / "run").events()[-1].event == "failed"
    for process in family:
        assert select.select([process], [], [], 30)[0], "a process lives on"
        os.close(process)
