"""What a run from Python shows: one line that is written over, where somebody watches."""

from __future__ import annotations

import io

import pytest

from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.listener import Silence
from agent_r1_core.evaluation.report import report
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.training.progress import Progress, default_listener, is_watched, showing_work
from agent_r1_core.work import working


def screen(text: str) -> list[str]:
    """The lines that remain visible: a carriage return goes back to the beginning, and what follows is written over."""
    lines = []
    for line in text.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def test_steps_write_over_one_line_and_notes_stay_above_it() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.note("writing to runs/first")
    progress.begin(0, 2)
    progress.episodes(3, 8, "rollout")
    progress.step(1, {"reward/mean": 0.25})
    progress.note("step 1: one episode failed\x1b[2J")
    progress.episodes(8, 8, "evaluation")
    task = make_task("a", "Where?", ("Rome",))
    progress.evaluation(
        1, report([EpisodeRecord.of(make_trajectory(task=task, answer="Rome"))], sampling={"greedy": True})
    )
    progress.step(2, {"reward/mean": 0.5, "reward/exact_match": 1.0})
    first, failed, evaluated, line, end = screen(stream.getvalue())
    assert (first, failed) == ("writing to runs/first", r"step 1: one episode failed\x1b[2J")
    assert evaluated.startswith("evaluation after step 1: exact_match 1.000")
    assert line == f"step 2/2 [{'#' * 20}]  reward 0.500  exact match 1.000"
    assert end == ""


def test_the_line_says_how_long_it_will_take_and_what_takes_long() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    with showing_work(progress):
        assert screen(stream.getvalue()) == ["loading torch and the model ..."]
        with working("loading tiny", 4, unit="tensors") as work:
            assert screen(stream.getvalue())[-1] == "loading tiny ..."
            work.done = 3
            progress.work(work)
            assert screen(stream.getvalue())[-1].startswith("loading tiny: 3 of 4 tensors, 75 %, ")
        assert screen(stream.getvalue())[-1] == ""
        progress.begin(0, 5)
        progress.step(1, {"time/step": 20.0})
        assert screen(stream.getvalue())[-1].endswith("1:20 left")
    failed = io.StringIO()
    with pytest.raises(ZeroDivisionError), showing_work(Progress(failed)):
        raise ZeroDivisionError
    assert screen(failed.getvalue()) == [""], "a failure begins on an empty line"
    with showing_work(Silence()), working("loading tiny"):
        assert "tiny" not in screen(stream.getvalue())[-1]


def test_a_terminal_and_a_notebook_are_watched_and_nothing_is_shown_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    class OutStream(io.StringIO):
        """As a notebook's kernel has it."""

    OutStream.__module__ = "ipykernel.iostream"
    for terminal, watched in (("xterm", [True, True, False]), ("dumb", [False, True, False])):
        monkeypatch.setenv("TERM", terminal)
        assert [is_watched(stream()) for stream in (Terminal, OutStream, io.StringIO)] == watched
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(default_listener(), Silence)
