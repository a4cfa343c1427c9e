"""Open pages hear what changes, from a server that runs as for a user."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent_r1_cli.viewer.serving import Viewer, listen
from agent_r1_core.errors import RunError
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.runs.run import Run
from agent_r1_core.testing.recorded_run import evaluate, record, record_step


class Events:
    """The news about some runs, as a page hears them."""

    def __init__(self, port: int, query: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.request("GET", f"/api/live{query}")
        self._lines = self._connection.getresponse()
        assert self._lines.getheader("content-type") == "text/event-stream; charset=utf-8"
        assert self._lines.readline() == b"event: watching\n"

    def until(self, run: str, what: str) -> None:
        """Wait for a change."""
        while self._next() != {"run": run, "what": what}:
            pass

    def end(self) -> bytes:
        """Wait for the end of all news."""
        return self._lines.read()

    def _next(self) -> object:
        for line in iter(self._lines.readline, b""):
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        raise AssertionError("the news have ended")


@pytest.fixture
def serve() -> Iterator[Callable[[Path], int]]:
    """`serve(folder)` is the port of a viewer."""
    viewers: list[tuple[Viewer, threading.Thread]] = []

    def start(folder: Path) -> int:
        ready, opened = threading.Event(), listen(None)
        viewer = Viewer(FoundRuns([folder]), ready.set)
        thread = threading.Thread(target=viewer.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        viewers.append((viewer, thread))
        assert ready.wait(60)
        return int(opened.getsockname()[1])

    yield start
    for viewer, thread in viewers:
        viewer.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def test_a_page_hears_of_every_part_that_changes(tmp_path: Path, serve: Callable[[Path], int]) -> None:
    path = record(tmp_path, steps=1)
    record(tmp_path, "other", steps=1)
    port = serve(tmp_path)
    page, every, elsewhere = Events(port, "?run=small"), Events(port), Events(port, "?run=other")
    with Run.resume(path) as run:
        run.append_event(1, "resumed", "it goes on")
        page.until("small", "state")
        record_step(run, 2)
        page.until("small", "metrics")
        evaluate(run, 2, 0.5)
        page.until("small", "evaluations")
    page.until("small", "state")  # nobody holds it, and it has no end
    every.until("small", "evaluations")
    record(tmp_path, "third", steps=1)
    elsewhere.until("", "runs")


def test_a_killed_training_shows_as_interrupted(tmp_path: Path, serve: Callable[[Path], int]) -> None:
    path = record(tmp_path, steps=1)
    code = (
        "import sys; from agent_r1_core.runs.run import Run; run = Run.resume(sys.argv[1]); "
        "run.append_event(1, 'resumed', 'it goes on'); print('on', flush=True); input()"
    )
    trainer = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == b"on\n"
    port = serve(tmp_path)
    assert _state(port) == "training"
    page = Events(port, "?run=small")
    trainer.kill()
    trainer.wait()
    page.until("small", "state")
    assert _state(port) == "interrupted"


def _state(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/api/runs")
    (run,) = json.loads(connection.getresponse().read())["runs"]
    return str(run["state"])


def test_ctrl_c_ends_the_viewer_though_pages_listen(tmp_path: Path) -> None:
    record(tmp_path, steps=1)
    code = "from agent_r1_cli.main import main; main()"
    command = [sys.executable, "-c", code, "view", tmp_path / "small", "--no-open"]
    viewer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert viewer.stdout is not None
    said = viewer.stdout.readline()
    assert said.startswith("1 run at http://127.0.0.1:")
    assert said.endswith("/#/runs/small\n")
    page = Events(urlsplit(said.split()[-1]).port or 0)
    viewer.send_signal(signal.SIGINT)
    page.end()
    rest, narration = viewer.communicate(timeout=60)
    assert (viewer.returncode, rest, narration) == (0, "", "Ctrl-C ends it\n")


def test_a_taken_port_is_passed_over_unless_it_was_asked_for() -> None:
    with listen(None) as first:
        first.listen()
        taken = first.getsockname()[1]
        with listen(None) as second:
            assert second.getsockname()[1] > taken
        with pytest.raises(RunError, match=f"port {taken} cannot be used"):
            listen(taken)
        assert first.getsockname()[0] == "127.0.0.1"
        assert (first.family, first.proto) == (socket.AF_INET, socket.IPPROTO_TCP)  # so asyncio sends at once
