"""Many programs, one after the other and at once, leave nothing behind."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable

import psutil
import pytest

from agent_r1_core import Task

from .conftest import user
from .test_program import ASK

pytestmark = pytest.mark.slow


def held() -> tuple[int, int, int]:
    """Open files, threads and children of this process."""
    process = psutil.Process()
    return process.num_fds(), threading.active_count(), len(process.children(recursive=True))


def wait_until(so: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether it is so in the end; idle threads take a moment."""
    end = time.monotonic() + seconds
    while not so() and time.monotonic() < end:
        time.sleep(0.1)
    return so()


def test_a_thousand_functions_leave_nothing(play):
    def run(client, episode):
        messages = [user("one"), client.ask([user("one")])]
        client.ask([*messages, user("two")])
        client.http.close()

    tasks = tuple(Task(f"t{number}", "?") for number in range(200))
    play(run, tasks=tasks)
    before, memory = held(), psutil.Process().memory_info().rss
    for _ in range(5):
        result = play(run, tasks=tasks)
        assert len(result.trajectories) == 200
    assert wait_until(lambda: all(now <= once + 8 for once, now in zip(before, held(), strict=True))), (before, held())
    assert psutil.Process().memory_info().rss - memory < 60 * 2**20


def test_32_processes_at_once_leave_nothing(play, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file = tmp_path / "agent.py"
    file.write_text(f"{ASK}\nprint(json.dumps({{'answer': ask(json.load(sys.stdin)['id'])}}))")
    command = [sys.executable, "-S", str(file)]
    tasks = tuple(Task(f"t{number}", "?") for number in range(64))
    settings = {"max_episodes": 32}
    before = held()
    result = play(command=command, tasks=tasks, settings=settings, script=lambda cue: "Tavelo")
    assert [one.answer for one in result.trajectories] == ["Tavelo"] * 64
    assert held()[2] <= before[2]
    assert not list(tmp_path.glob("agent-r1-program-*"))
