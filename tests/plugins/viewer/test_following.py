"""Pages follow a run that trains: its steps appear, and its end does."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from agent_r1_core.runs.metrics_file import MetricsFile

Open = Callable[..., Any]
AT_LEAST_2 = re.compile(r"step ([2-9]|\d\d+): ")


@pytest.mark.slow
def test_steps_of_a_run_that_trains_appear_and_a_killed_one_shows_as_interrupted(
    open_page: Open, show: Callable[[Path], str], tmp_path: Path
) -> None:
    keys = [
        *("training.steps=100000", "training.tasks_per_step=2", "training.samples_per_task=2", "threads=1"),
        *("tasks.train.size=20", "evaluation.size=4", "evaluation.every=2", f"run.dir={tmp_path}", "run.name=live"),
    ]
    call = [sys.executable, "-c", "from agent_r1_cli.main import main; main()", "train", "default", *keys]
    page = open_page(at=show(tmp_path))
    child = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        page.wait_for_selector(".badge:has-text('training')")
        page.locator("tbody a").click()
        head = page.locator("[data-part=head]")
        step = page.locator("[data-metric='reward/mean'] .readout")
        expect(step).to_have_text(AT_LEAST_2)
        page.locator("[data-part=evaluations] > summary").click()
        expect(page.locator("[data-part=evaluations] tbody tr").nth(1)).to_be_visible()
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    expect(head.locator(".badge")).to_contain_text("interrupted")
    expect(head).to_contain_text("killed")
    last = (tmp_path / "live" / "metrics.jsonl").read_text().splitlines()[-1]
    expect(step).to_contain_text(f"step {json.loads(last)['step']}: ")


def test_steps_that_were_taken_back_are_gone_from_the_curves(
    open_page: Open, show: Callable[[Path], str], recorded: Path, tmp_path: Path
) -> None:
    """Though no event says so yet: a resume truncates long after it is noted, and a lost learner is not."""
    shutil.copytree(recorded / "grpo", tmp_path / "grpo")
    page = open_page("#/runs/grpo", at=show(tmp_path))
    step = page.locator("[data-metric='reward/mean'] .readout")
    expect(step).to_contain_text("step 3: ")
    file = MetricsFile(tmp_path / "grpo" / "metrics.jsonl")
    file.truncate_after(1)
    file.append(2, {"reward/mean": 0.9})
    expect(step).to_have_text(re.compile(r"^step 2: 0\.9"))
    file.append(3, {"reward/mean": 0.7})
    expect(step).to_have_text(re.compile(r"^step 3: 0\.7"))
    expect(page.locator("[data-part=head]")).to_contain_text("3 of 3")
