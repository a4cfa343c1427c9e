"""What has become of a run: its events, its lock where there is no end, and the calls of tools that it died in."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_r1_core.errors import RunError
from agent_r1_core.runs.call_log import CallLog, unfinished_calls
from agent_r1_core.runs.evaluation_file import EvaluationTasks
from agent_r1_core.runs.events_file import RunState
from agent_r1_core.runs.run import Run


def begin(home: Path, *events: tuple[int, str, str]) -> Run:
    run = Run.create(home, "first", {}, [])
    for event in events:
        run.append_event(*event)
    return run


STARTED = 0, "started", "training started"


def test_a_run_is_training_until_it_tells_how_it_ended(tmp_path: Path) -> None:
    with begin(tmp_path, STARTED, (3, "note", "writing \ud800 goes on")) as run:
        reader = Run.open(run.path)
        assert reader.state() == RunState("training", "training started")
        run.append_event(4, "stopped_early", "stopped early after step 4, at the alarm group_std")
    assert reader.state() == RunState("finished", "stopped early after step 4, at the alarm group_std")
    with Run.resume(run.path) as again:
        again.append_event(4, "resumed", "training resumed after step 4")
        assert reader.state().kind == "training"
        again.append_event(6, "failed", "the disk is full")
    assert reader.state() == RunState("failed", "the disk is full")
    events = reader.events()
    steps = [(event.step, event.event) for event in events]
    assert steps == [(0, "started"), (3, "note"), (4, "stopped_early"), (4, "resumed"), (6, "failed")]
    assert events[1].text == "writing ? goes on"
    assert sorted(events, key=lambda event: event.time) == events


def test_a_killed_run_is_interrupted_and_its_torn_line_is_no_event(tmp_path: Path) -> None:
    told, ready = os.pipe()
    trainer = os.fork()
    if trainer == 0:
        with begin(tmp_path, STARTED):
            os.write(ready, b".")
            signal.pause()
    os.read(told, 1)
    reader = Run.open(tmp_path / "first")
    assert reader.state() == RunState("training", "training started")
    os.kill(trainer, signal.SIGKILL)
    os.waitpid(trainer, 0)
    for handle in (told, ready):
        os.close(handle)
    with (reader.path / "events.jsonl").open("a") as file:
        file.write('{"time": 17')
    sentence = f"its process was killed; continue with: agent-r1 train {reader.path} --resume"
    assert reader.state() == RunState("interrupted", sentence)
    with Run.resume(reader.path) as run:
        run.append_event(0, "resumed", "training resumed")
        assert reader.state().kind == "training"
    assert [event.event for event in reader.events()] == ["started", "resumed"]


def test_runs_of_before_have_no_events_and_one_of_an_evaluation_alone_is_finished(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.write_evaluation("eval_1", {"n": 1})
    reader = Run.open(run.path)
    assert reader.events() == []
    run.close()
    assert reader.state().kind == "finished"
    with Run.resume(run.path) as run:
        run.write_evaluation_tasks(EvaluationTasks({"eval": ("a",)}, ("a",)))
        run.write_evaluation("step_000000", {"n": 1}, step=0)
        assert reader.state() == RunState("training", "it is training")
    assert reader.state().kind == "interrupted"
    assert "continue with: agent-r1 train" in reader.state().sentence
    reader.model.mkdir()
    assert reader.state() == RunState("finished", "its training has ended")


def test_the_end_of_a_trainer_is_seen_even_between_two_looks_and_a_line_that_is_no_event_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends after its events were read and before its lock is probed."""
    run = begin(tmp_path, STARTED)

    def ends(folder: Path) -> bool:
        run.append_event(9, "finished", "all 9 steps are done")
        run.close()
        return False

    with monkeypatch.context() as patch:
        patch.setattr("agent_r1_core.runs.run_reader.is_held", ends)
        assert Run.open(run.path).state() == RunState("finished", "all 9 steps are done")
    events = run.path / "events.jsonl"
    whole = events.read_text()
    for line in ("{}", "3", '{"time": 1, "step": 0, "event": "odd", "text": ""}', "[" * 5000):
        events.write_text(f"{whole}{line}\n")
        with pytest.raises(RunError, match=r"line 3 of .*events\.jsonl is not an event; delete the line"):
            run.state()


def test_the_calls_under_way_are_named_after_the_process_died(tmp_path: Path) -> None:
    died = f"""
import os
from pathlib import Path
from agent_r1_core.runs.call_log import CallLog
log = CallLog(Path({str(tmp_path)!r}))
ended = log.begin("search", "1/q0/0/1", 0)
log.begin("count", "1/q1/0/1", 2)
log.end(ended)
log.begin("search", "1/q2/0/1", 1)
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", died], check=False)
    assert unfinished_calls(tmp_path) == (
        "the process of this run died while calls of tools ran in it: search (episode 1/q2/0/1, turn 1), "
        "count (episode 1/q1/0/1, turn 2); if a tool ended it, give that tool isolation: process"
    )


def test_an_error_that_a_tool_may_have_caused_is_explained_where_tools_ran(tmp_path: Path) -> None:
    log, closed = CallLog(tmp_path), OSError(errno.EBADF, "Bad file descriptor")
    assert log.explain(closed) is None
    log.end(log.begin("search", "1/q0/0/1", 0))
    assert "as when a tool has closed descriptors" in str(log.explain(closed))
    assert "give search isolation: process" in str(log.explain(RecursionError("too deep")))
    assert log.explain(OSError(errno.ENOSPC, "No space left on device")) is None
    log.begin("search", "1/q0/0/1", 1)
    log.close()
    assert unfinished_calls(tmp_path) is None, "a run that ended in order says nothing"
    assert list(tmp_path.iterdir()) == []


def test_a_descriptor_that_a_tool_closed_and_another_file_took_is_left_alone(tmp_path: Path) -> None:
    log = CallLog(tmp_path)
    with (tmp_path / "checkpoint").open("w") as checkpoint:
        os.dup2(checkpoint.fileno(), log._file)
        log.begin("search", "1/q0/0/1", 0)
    os.close(log._file)
    assert (tmp_path / "checkpoint").read_text() == ""
