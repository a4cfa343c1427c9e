"""A run keeps how it began, what its user was told, and how it ended."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
import small_run

from agent_r1_core import Run, train
from agent_r1_core.errors import AgentR1Error, RunError

STEPS = 2


class Notes(small_run.Notes):
    """Remembers what was said, and does something at a step."""

    def __init__(self, at: int = 0, does: str = "") -> None:
        super().__init__()
        self._at, self._does = at, does

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        if step == self._at and self._does == "is interrupted":
            signal.raise_signal(signal.SIGTERM)
        elif step == self._at:
            raise AgentR1Error("the display is broken; mend it")


def keys(model: Path, home: Path, **more: str) -> list[str]:
    changed = {"model__name": model, "run__dir": home, "run__name": "run", "evaluation__at_start": "false"}
    return small_run.overrides(
        home, STEPS, **{"rewards": "[exact_match]", "checkpoint__best": "null", **changed, **more}
    )


def told(run: Run) -> list[tuple[int, str, str]]:
    return [(event.step, event.event, event.text) for event in run.events()]


def test_from_the_start_over_an_interruption_to_the_end(noise: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as interruption:
        train("default", keys(noise, tmp_path), listener=Notes(1, "is interrupted"))
    run = Run.open(tmp_path / "run")
    first = told(run)
    assert first[0] == (0, "started", "training started")
    assert (0, "note", f"writing to {run.path}") in first
    assert first[-1] == (1, "interrupted", str(interruption.value))
    assert "after step 1 of 2; continue with: agent-r1 train" in run.state().sentence
    notes = Notes()
    train("default", keys(noise, tmp_path), resume=True, listener=notes)
    second = told(run)[len(first) :]
    assert second[0] == (1, "resumed", "training resumed after step 1")
    assert second[-1] == (2, "finished", "all 2 steps are done")
    heard = [text for _, event, text in second if event == "note"]
    assert f"resuming {run.path} after step 1 of 2" in heard
    assert heard == [text for text in notes.said if text in heard]
    assert "rollout" in {of for *_, of in notes.heard}, "what is no event is passed on"
    assert run.state().kind == "finished"


def test_a_resume_after_a_kill_records_it_and_says_what_is_repeated(noise: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train("default", keys(noise, tmp_path), listener=Notes(1, "is interrupted"))
    run, events = Run.open(tmp_path / "run"), tmp_path / "run" / "events.jsonl"
    lines = [line for line in events.read_bytes().splitlines(keepends=True) if b'"interrupted"' not in line]
    events.write_bytes(b"".join(lines))
    shutil.rmtree(run.path / "checkpoints")
    assert run.state().sentence.startswith("its process was killed")
    notes = Notes()
    train("default", keys(noise, tmp_path), resume=True, listener=notes)
    after = told(run)[len(lines) :]
    assert after[0] == (1, "interrupted", "its process was killed, as this resume found")
    assert after[1] == (0, "resumed", "training resumed")
    assert "step 1 is repeated: no checkpoint was written before" in notes.said


def test_an_error_ends_a_run_with_its_sentence_but_a_refused_resume_does_not(noise: Path, tmp_path: Path) -> None:
    with pytest.raises(AgentR1Error, match="the display is broken"):
        train("default", keys(noise, tmp_path), listener=Notes(1, "fails"))
    run = Run.open(tmp_path / "run")
    assert told(run)[-1] == (1, "failed", "the display is broken; mend it")
    assert (run.state().kind, run.state().sentence) == ("failed", "the display is broken; mend it")
    before = told(run)
    with pytest.raises(RunError, match="started with other values of seed"):
        train("default", [*keys(noise, tmp_path), "seed=5"], resume=True, listener=Notes())
    assert told(run) == before


def test_a_start_that_fails_in_its_directory_is_recorded_unless_nothing_stays(
    noise: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run without results is removed; one that has replaced nothing and holds an evaluation stays."""

    def fails(run: Run, model: Path) -> None:
        assert run.state().kind == "training"
        if evaluated:
            run.write_evaluation("step_000000", {"n": 1}, step=0)
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Run, "keep_model_files", fails)
    for evaluated in (False, True):
        with pytest.raises(ZeroDivisionError):
            train("default", keys(noise, tmp_path), listener=Notes())
        assert (tmp_path / "run").exists() == evaluated
    assert told(Run.open(tmp_path / "run"))[-1] == (0, "failed", "ZeroDivisionError: division by zero")


def test_events_that_cannot_be_written_hide_no_error_and_are_told_once(noise: Path, tmp_path: Path) -> None:
    class Obstacle(Notes):
        """Puts a folder where the events are, and then fails."""

        def note(self, text: str) -> None:
            super().note(text)
            events = tmp_path / "run" / "events.jsonl"
            if events.is_file():
                events.unlink()
                events.mkdir()

    notes = Obstacle(1, "fails")
    with pytest.raises(AgentR1Error, match="the display is broken"):
        train("default", keys(noise, tmp_path), listener=notes)
    assert len([text for text in notes.said if "events of the run are recorded no longer" in text]) == 1


def test_a_best_metric_that_no_evaluation_gives_is_told_once(noise: Path, tmp_path: Path) -> None:
    """The world does not say whether an episode succeeded."""
    notes = Notes()
    own = {"rewards": "[format]", "checkpoint__best": "eval/success", "evaluation__every": "1"}
    train("default", keys(noise, tmp_path, **own), listener=notes)
    said = [text for text in notes.said if "checkpoint.best" in text]
    assert said == ["step 1: the evaluation gave eval/success (checkpoint.best) no value: it chooses no checkpoint"]
