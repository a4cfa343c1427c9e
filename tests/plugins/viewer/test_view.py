"""`agent-r1 view`: it opens a page, serves this machine alone, and open pages hear what changes and follow it."""

from __future__ import annotations

import asyncio
import html
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from agent_r1_viewer.live import Live
from agent_r1_viewer.opened_runs import OpenedRuns
from agent_r1_viewer.serving import PORT, Viewer, listen
from agent_r1_viewer.view_command import _opened, view
from playwright.sync_api import expect
from recorded_run import record

from agent_r1_core.errors import RunError
from agent_r1_core.runs.metrics_file import MetricsFile
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.testing import CommandContract


def ask(address: str, path: str, **headers: str) -> http.client.HTTPResponse:
    """What the viewer at an address answers to whoever has its token."""
    at = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", at.port or 0, timeout=60)
    token = f"agent-r1-{at.port}={at.query.removeprefix('token=')}"
    connection.request("GET", path, headers={"cookie": token, **headers})
    return connection.getresponse()


class Events:
    """The news about some runs, as a page hears them."""

    def __init__(self, address: str, query: str = "", **headers: str) -> None:
        self._lines = ask(address, f"/api/live{query}", **headers)
        assert self._lines.getheader("content-type") == "text/event-stream; charset=utf-8"
        assert [self._lines.readline() for _ in range(2)] == [b"event: watching\n", b"data: {}\n"]

    def end(self) -> bytes:
        """Wait for the end of all news."""
        return self._lines.read()

    def next(self) -> Any:
        """The next change."""
        for line in iter(self._lines.readline, b""):
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        raise AssertionError("the news have ended")


@pytest.mark.slow
def test_a_page_hears_what_it_has_missed_and_nothing_that_it_knows(tmp_path: Path, show: Callable[[Path], str]) -> None:
    path = record(tmp_path, steps=1)
    record(tmp_path, "other", steps=1)
    address = show(tmp_path)
    before = Events(address)
    assert before.next() == {"run": "", "what": "runs"}  # it did not say what it knows
    known = str(ask(address, "/api/runs").getheader("news"))
    elsewhere = Events(address, f"?run=other&since={known}")
    with (path / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"step": 2, "reward/mean": 0.5}\n')
    while before.next() != {"run": "small", "what": "metrics"}:
        pass
    for page in (Events(address, f"?run=small&since={known}"), Events(address, **{"last-event-id": known})):
        assert page.next() == {"run": "small", "what": "metrics"}
    now = Events(address, f"?run=small&since={ask(address, '/api/runs').getheader('news')}")
    (path / "health.jsonl").write_text("{}\n")
    assert now.next() == {"run": "small", "what": "events"}
    assert Events(address, "?run=small&since=another-1").next() == {"run": "small", "what": "episodes"}
    record(tmp_path, "third", steps=1)
    assert elsewhere.next() == {"run": "", "what": "runs"}, "it has heard nothing of the run that it does not show"


async def test_who_listens_again_is_told_what_was_missed_and_nobody_looks_when_all_have_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_r1_viewer.live.SECONDS", 0.01)
    path = record(tmp_path, steps=1)
    live = Live(OpenedRuns(FoundRuns([tmp_path])))
    await live.begin()
    known = live.position
    with (path / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"step": 2, "reward/mean": 0.5}\n')
    for _ in range(2):
        events = live.events(["small"], since=known)
        told = [await anext(events) for _ in range(2)]
        assert told[0].startswith("event: watching")
        assert json.loads(told[1].partition("data: ")[2]) == {"run": "small", "what": "metrics"}
        await events.aclose()
    watching = live._task
    assert watching is not None
    await asyncio.wait_for(watching, 60)


def test_the_server_answers_who_has_its_token(tmp_path: Path) -> None:
    record(tmp_path, steps=1)
    ready = threading.Event()
    with listen(None) as opened:
        server = Viewer(FoundRuns([tmp_path]), "secret", ready.set)
        thread = threading.Thread(target=server.run, args=([opened],), daemon=True)
        thread.start()
        assert ready.wait(60)
        address = f"http://127.0.0.1:{opened.getsockname()[1]}/?token="
        assert [run["id"] for run in json.loads(ask(f"{address}secret", "/api/runs").read())["runs"]] == ["small"]
        assert ask(f"{address}another", "/api/runs").status == 403
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def test_ctrl_c_ends_the_viewer_though_pages_listen(tmp_path: Path) -> None:
    record(tmp_path, steps=1)
    code = "from agent_r1_cli.main import main; main()"
    command = [sys.executable, "-c", code, "view", tmp_path / "small", "--no-open"]
    with listen(None):  # so that the first port is in use
        viewer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert viewer.stdout is not None
        said = viewer.stdout.readline()
    address = urlsplit(said.split()[-1])
    port, token = address.port or 0, address.query.removeprefix("token=")
    assert said == f"1 run at http://127.0.0.1:{port}/?token={token}#/runs/small\n"
    assert len(token) == 32
    page = Events(said.split()[-1])
    viewer.send_signal(signal.SIGINT)
    page.end()
    rest, narration = viewer.communicate(timeout=60)
    assert (viewer.returncode, rest) == (0, "")
    assert narration == (f"port {PORT} is in use, so this viewer has port {port}; --port chooses one\nCtrl-C ends it\n")


def test_a_taken_port_is_passed_over_unless_it_was_asked_for() -> None:
    with listen(None) as first:
        first.listen()
        taken = first.getsockname()[1]
        with listen(None) as second:
            assert second.getsockname()[1] != taken
        with pytest.raises(RunError, match=f"port {taken} cannot be used"):
            listen(taken)
        assert first.getsockname()[0] == "127.0.0.1"
        assert (first.family, first.proto) == (socket.AF_INET, socket.IPPROTO_TCP)  # so asyncio sends at once


class TestView(CommandContract):
    component = view


def test_a_place_without_runs_is_named(
    agent_r1: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = {
        (): "there is no folder runs here; `agent-r1 train`",
        ("nowhere",): "there is no nowhere; give a run or a folder",
    }
    for arguments, sentence in said.items():
        asked = agent_r1("view", *arguments, "--no-open")
        assert (asked.exit_code, asked.stdout) == (1, "")  # type: ignore[attr-defined]
        assert asked.stderr.startswith(f"error: {sentence}")  # type: ignore[attr-defined]


def test_the_viewer_imports_no_torch() -> None:
    code = "import agent_r1_viewer.serving, sys; print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("folder", ["home/Downloads", "home", "elsewhere"])
def test_no_command_line_shows_the_token_and_a_browser_with_a_tmp_of_its_own_finds_the_page(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    address = "http://127.0.0.1:8700/?token=secret#/runs/a%27b"
    with _opened(address):
        (page,) = (tmp_path / folder).iterdir()
        assert opened == [page.as_uri()]
        assert html.unescape(page.read_text()) == f'<meta http-equiv="refresh" content="0; url={address}">'
        assert (page.stat().st_mode & 0o777, page.name[0]) == (0o600, "a")
    assert not page.exists()


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
