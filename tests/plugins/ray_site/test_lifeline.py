"""A run whose Ray is killed says so in one sentence, records its end, and leaves no process."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from agent_r1_ray import lifeline
from agent_r1_ray.left_behind import below
from agent_r1_ray.lifeline import Lifeline

from agent_r1_core.runs.run import Run

SETTINGS = (
    *("threads=1", "model.dtype=float32", "tasks.train.size=8", "tasks.eval.size=2", "training.steps=500"),
    *("training.tasks_per_step=1", "training.samples_per_task=2", "checkpoint.best=null"),
    *("evaluation={every: 0, at_start: false, at_end: false}", "distributed={rollout_workers: 1}"),
)


def _named(process: int, name: str) -> bool:
    with suppress(OSError):  # it has ended meanwhile
        return f"/{name}\0" in Path("/proc", str(process), "cmdline").read_text(errors="replace")
    return False


class Clock:
    """It is asked whenever a connection was refused."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = threading.Semaphore(0)

    def go_on(self, seconds: float) -> None:
        """Go on, and wait until what that changes was seen."""
        self.now += seconds
        self.asked = threading.Semaphore(0)
        assert all(self.asked.acquire(timeout=30) for _ in range(2))

    def monotonic(self) -> float:
        self.asked.release()
        return self.now


def _listening(port: int = 0) -> socket.socket:
    server = socket.create_server(("127.0.0.1", port))
    server.settimeout(30)
    return server


@pytest.mark.parametrize("joined", [False, True])
def test_only_the_gcs_of_a_cluster_that_was_joined_may_come_back(joined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gcs, raylet = _listening(), _listening()
    port = gcs.getsockname()[1]
    node = {"NodeID": "here", "NodeManagerAddress": "127.0.0.1", "NodeManagerPort": raylet.getsockname()[1]}
    context = SimpleNamespace(get_node_id=lambda: "here", gcs_address=f"127.0.0.1:{port}")
    clock, said, ended = Clock(), set[str](), threading.Event()

    def end(lifeline: Lifeline, name: str, address: str) -> None:
        said.add(f"{name} at {address}")
        ended.set()

    monkeypatch.setattr(lifeline, "ray", SimpleNamespace(get_runtime_context=lambda: context, nodes=lambda: [node]))
    monkeypatch.setattr(lifeline, "time", clock)
    monkeypatch.setattr(lifeline, "_PERIOD", 0.01)
    monkeypatch.setattr(Lifeline, "_end", end)
    watching = Lifeline(lambda sentence: None, learning=True, mark=None if joined else "own")
    with raylet, raylet.accept()[0]:
        if joined:
            with gcs, gcs.accept()[0]:
                pass
            clock.go_on(0.0)
            clock.go_on(49.0)
            gcs = _listening(port)
        with gcs, gcs.accept()[0]:
            assert not said
        if joined:
            clock.go_on(0.0)
            clock.go_on(49.0)
            assert not said
            clock.go_on(1.0)
        assert ended.wait(30)
        watching.close()
    assert said == {f"the control store of Ray (GCS) at 127.0.0.1:{port}"}


def test_what_a_dead_raylet_left_behind_ends_with_the_process() -> None:
    """Ray's own agents, and workers that are just starting, do not see for long, or ever, that their raylet is gone."""
    call = """
import os, subprocess
from agent_r1_ray.left_behind import MARK, begun
from agent_r1_ray.lifeline import Lifeline
def orphan(**more):
    run = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]
    return int(subprocess.run(run, capture_output=True, text=True, env={**os.environ, **more}).stdout)
agent, worker = orphan(), orphan(**{MARK: "own"})
lifeline = object.__new__(Lifeline)
lifeline._lost, lifeline._advice = lambda sentence: print(agent, worker, flush=True), ""
lifeline._mark, lifeline._first, lifeline._other = "own", {agent: begun(agent)}, None
lifeline._end("the raylet", "here")
"""
    ended = subprocess.run([sys.executable, "-c", call], stdout=subprocess.PIPE, text=True, timeout=120)
    assert ended.returncode == 1
    for process in map(int, ended.stdout.split()):
        with suppress(ProcessLookupError):  # it has ended already
            assert select.select([os.pidfd_open(process)], [], [], 60)[0], "it lives on"


def _lose(service: str, run: Path) -> bool:
    """Kill a service of Ray under a run, which says so and leaves no process; returns whether it recorded its end."""
    start = "from agent_r1_cli.main import main; main()"
    call = [sys.executable, "-c", start, "train", "default", f"run.dir={run.parent}", f"run.name={run.name}", *SETTINGS]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as command:
        assert command.stdout is not None
        while not (run / "metrics.jsonl").exists():
            assert command.poll() is None, command.stdout.read()
            time.sleep(0.05)
        family = {}
        for process in below(command.pid):
            with suppress(OSError):  # it has ended meanwhile
                family[os.pidfd_open(process)] = process, Path(f"/proc/{process}/cmdline").read_bytes()[:300]
        os.kill(next(process for process in below(command.pid) if _named(process, service)), signal.SIGKILL)
        said = command.stdout.read()
    assert command.returncode == 1, said
    assert sum("error" in line and "continue with --resume" in line for line in said.splitlines()) == 1, said
    for ended, process in family.items():
        assert select.select([ended], [], [], 60)[0], f"it lives on: {process}"
        os.close(ended)
    return Run.open(run).events()[-1].event == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("service", ["raylet", "gcs_server"])
def test_a_lost_service_of_ray_is_one_sentence_and_an_end(tmp_path: Path, service: str) -> None:
    """A process that uses Ray's store as its raylet dies is ended by Ray before it can record anything: with steps of a
    tenth of a second that happens, but not four times."""
    attempts = 4 if service == "raylet" else 1
    assert any(_lose(service, tmp_path / f"run-{attempt}") for attempt in range(attempts)), "no run recorded its end"


@pytest.mark.parametrize(("killed", "lost"), [(True, True), (True, False), (False, True)])
def test_of_a_process_that_dies_with_its_raylet_another_one_tells(killed: bool, lost: bool) -> None:
    call = """
import os, subprocess, sys
from agent_r1_ray.left_behind import MARK, stand_by
other = stand_by(sys.argv[1], "own", "all is lost")
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
print(subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: "own"}, **quiet).pid, flush=True)
sys.stdin.read()
other.kill()
"""
    with _listening() as raylet:
        address = f"127.0.0.1:{raylet.getsockname()[1]}"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([sys.executable, "-c", call, address], **pipes, text=True)
        left = int(process.stdout.readline())
        if lost:
            raylet.close()
        if killed:
            process.kill()
        _, said = process.communicate(timeout=60)
    assert said == ("error: all is lost\n" if killed and lost else "")
    if killed and lost:
        with suppress(ProcessLookupError):  # it has ended already
            assert select.select([os.pidfd_open(left)], [], [], 60)[0], "it lives on"
    else:
        os.kill(left, signal.SIGKILL)  # it lives
