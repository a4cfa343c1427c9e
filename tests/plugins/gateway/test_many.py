"""Many programs, one after the other and at once, leave nothing behind."""

from __future__ import annotations

import sys
import tempfile
import threading
import time

import psutil
import pytest

from agent_r1_core import Task

from .conftest import play, user
from .test_program import ASK

pytestmark = pytest.mark.slow


def held() -> tuple[int, int, int]:
    """Open files, threads and children of this process."""
    process = psutil.Process()
    return process.num_fds(), threading.active_count(), len(process.children(recursive=True))


def test_a_thousand_functions_are_kept_apart_and_leave_nothing():
    def run(client, episode):
        messages = [user(f"I am {episode.task['id']}")]
        for _ in range(2):
            messages += [client.ask(messages), user("go on")]
        client.http.close()
        return {"answer": messages[1]["content"]}

    def play_all():
        result = play(run, script=lambda cue: cue.prompt.rpartition("I am ")[2].partition("<")[0], tasks=tasks)
        assert [one.answer for one in result.trajectories] == [task.id for task in tasks]
        assert all(len(one.segments) == 1 and len(one.turns) == 2 for one in result.trajectories)

    tasks = tuple(Task(f"t{number}", "?") for number in range(200))
    play_all()
    before, memory = held(), psutil.Process().memory_info().rss
    for _ in range(5):
        play_all()
    end = time.monotonic() + 60
    while any(now > once + 8 for once, now in zip(before, held(), strict=True)):  # idle threads take a moment
        assert time.monotonic() < end, (before, held())
        time.sleep(0.1)
    assert psutil.Process().memory_info().rss - memory < 60 * 2**20


def test_32_processes_at_once_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file = tmp_path / "agent.py"
    file.write_text(f"{ASK}\nprint(json.dumps({{'answer': ask(json.load(sys.stdin)['id'])}}))")
    command = [sys.executable, "-S", str(file)]
    tasks = tuple(Task(f"t{number}", "?") for number in range(64))
    settings = {"max_episodes": 32}
    play(command=command, tasks=tasks[:1], settings=settings, script=lambda cue: "Tavelo")  # the reaper stays
    before = held()
    result = play(command=command, tasks=tasks, settings=settings, script=lambda cue: "Tavelo")
    assert [one.answer for one in result.trajectories] == ["Tavelo"] * 64
    assert held()[2] <= before[2]
    assert not list(tmp_path.glob("agent-r1-program-*"))
