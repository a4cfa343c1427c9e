"""The command line trains with vLLM, the two sides agree, and the run leaves no process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

OVERRIDES = (
    "engine.name=vllm",
    "engine.kv_cache_memory=0.25",
    "training.steps=2",
    "training.tasks_per_step=4",
    "training.samples_per_task=4",
    "evaluation.every=0",
    "evaluation.at_start=false",
    "evaluation.at_end=false",
    "checkpoint.best=null",
    "threads=1",
)


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "dtype"), [("in_process", "bfloat16"), ("separate", "float32")])
def test_training_agrees_with_its_engine_and_leaves_nothing(processes: str, dtype: str, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("agent-r1")), "train", "default", *OVERRIDES]
    command += [f"engine.processes={processes}", f"model.dtype={dtype}", f"run.dir={tmp_path}", "run.name=one"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        try:
            said, narrated = run.communicate(timeout=300)
            left = still_running(run.pid)
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
    assert run.returncode == 0, narrated
    assert not left, f"the run left processes behind: {left}"
    assert "vllm" not in said.lower(), f"vLLM spoke on stdout:\n{said}"
    steps = [json.loads(line) for line in (tmp_path / "one" / "metrics.jsonl").read_text().splitlines()]
    assert len(steps) == 2
    for metrics in steps:
        if "prob_gap" in metrics:
            assert metrics["prob_gap"] < (0.005 if dtype == "bfloat16" else 1e-5)
            assert metrics["logprob_gap"] < (0.05 if dtype == "bfloat16" else 1e-4)
    assert "prob_gap" in steps[0], "no group had a spread of rewards, so that the gap was not measured"


def still_running(session: int) -> list[str]:
    """Command lines in a session; a process that has ended has none."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == session:
                found.append(" ".join(process.cmdline()))
    return [command for command in found if command]
