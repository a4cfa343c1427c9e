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
from agent_r1_core.runs.run import Run

Open = Callable[..., Any]
Changed = Callable[..., list[str]]
AT_LEAST_2 = re.compile(r"step ([2-9]|\d\d+): ")


@pytest.mark.slow
def test_steps_of_a_run_that_trains_appear_and_a_killed_one_shows_as_interrupted(
    open_page: Open, show: Callable[[Path], str], changed: Changed, jumps: Callable[[Any], float], tmp_path: Path
) -> None:
    keys = changed("training.steps=100000", f"run.dir={tmp_path}", "run.name=live", "evaluation.every=2")
    call = [sys.executable, "-c", "from agent_r1_cli.main import main; main()", "train", "default", *keys]
    page = open_page(at=show(tmp_path))
    child = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        page.wait_for_selector(".badge:has-text('training')")
        page.locator("tbody a").click()
        head = page.locator("[data-part=head]")
        step = page.locator("[data-metric='reward/mean'] .readout")
        expect(step).to_have_text(AT_LEAST_2)
        assert jumps(page) < 0.02
        page.get_by_label("Filter metrics").fill("reward/mean")
        page.get_by_label("Smoothing").fill("0.5")
        expect(step).not_to_have_text(step.inner_text())
        page.locator("[data-part=evaluations] > summary").click()
        expect(page.locator("[data-part=evaluations] tbody tr").nth(1)).to_be_visible()
        assert page.get_by_label("Smoothing").input_value() == "0.5"
        assert page.get_by_label("Filter metrics").input_value() == "reward/mean"
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


def test_a_run_that_is_opened_before_its_first_step_gets_curves_with_their_meanings(
    open_page: Open, show: Callable[[Path], str], tmp_path: Path, watched: Any
) -> None:
    watched.expected.append("ERR_FAILED")
    with Run.create(tmp_path, "begun", {}, []) as run:
        page = open_page("#/runs/begun", at=show(tmp_path))
        page.get_by_text("No step is recorded yet").wait_for()
        reward = {"name": "reward/mean", "unit": "points", "better": "higher", "meaning": "What it earned."}
        (run.path / "metric_catalogue.json").write_text(json.dumps([reward]))
        run.append_metrics(1, {"reward/mean": 0.5})
        chart = page.locator("[data-metric='reward/mean']")
        expect(chart.locator("h3")).to_have_text("reward/mean (points)")
        expect(chart.locator(".meaning")).to_have_text("What it earned.; higher is better")
        # Without news, a page says so; one that needs none does not.
        page.route("**/api/live?*", lambda route: route.abort())
        page.reload()
        page.wait_for_selector("html[data-lost]")
        page.evaluate("location.hash = '#/plot?runs=begun&metrics=reward/mean'")
        page.wait_for_selector(".page.plot")
        assert page.locator("html[data-lost]").count() == 0
