"""What has become of a run: its events, and its lock where there is no end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from agent_r1_core.errors import RunError
from agent_r1_core.runs.evaluation_file import EvaluationTasks
from agent_r1_core.runs.events_file import RunState
from agent_r1_core.runs.run import Run


def begin(home: Path) -> Run:
    return Run.create(home, "first", {}, [])


def files(run: Run) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in run.path.rglob("*") if path.is_file()}


def test_a_run_is_training_until_it_tells_how_it_ended(tmp_path: Path) -> None:
    with begin(tmp_path) as run:
        run.append_event(0, "started", "training started")
        run.append_event(3, "note", "writing \ud800 goes on")
        reader = Run.open(run.path)
        before = files(run)
        assert reader.state() == RunState("training", "training started")
        assert files(run) == before, "reading writes nothing"
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
        run = begin(tmp_path)
        run.append_event(0, "started", "training started")
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


def test_the_end_of_a_trainer_is_seen_even_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends after its events were read and before its lock is probed."""
    run = begin(tmp_path)
    run.append_event(0, "started", "training started")

    def ends(folder: Path) -> bool:
        run.append_event(9, "finished", "all 9 steps are done")
        run.close()
        return False

    monkeypatch.setattr("agent_r1_core.runs.run_reader.is_held", ends)
    assert Run.open(run.path).state() == RunState("finished", "all 9 steps are done")


def test_runs_of_before_have_no_events(tmp_path: Path) -> None:
    run = begin(tmp_path)
    run.write_evaluation_tasks(EvaluationTasks({"eval": ("a",)}, ("a",)))
    run.write_evaluation("step_000000", {"n": 1}, step=0)
    reader = Run.open(run.path)
    assert reader.events() == []
    assert reader.state() == RunState("training", "it is training")
    run.close()
    assert reader.state().kind == "interrupted"
    assert "continue with: agent-r1 train" in reader.state().sentence
    reader.model.mkdir()
    assert reader.state() == RunState("finished", "its training has ended")


def test_a_run_of_an_evaluation_alone_is_finished(tmp_path: Path) -> None:
    with begin(tmp_path) as run:
        run.write_evaluation("eval_1", {"n": 1})
    assert Run.open(run.path).state().kind == "finished"


@pytest.mark.parametrize("line", ["{}", "3", '{"time": 1, "step": 0, "event": "odd", "text": ""}', "[" * 5000])
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str) -> None:
    with begin(tmp_path) as run:
        run.append_event(0, "started", "training started")
    with (run.path / "events.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(RunError, match=r"line 2 of .*events\.jsonl is not an event; delete the line"):
        run.state()
