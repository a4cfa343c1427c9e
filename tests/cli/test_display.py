"""The training display: plain lines where nobody watches, a bar where somebody does."""

from __future__ import annotations

import io
import re

import pytest

from agent_r1_cli.display import TrainDisplay, duration, summary
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.report import report
from agent_r1_core.testing import make_trajectory

METRICS = {
    "reward/mean": 0.5123,
    "reward/exact_match": 0.5,
    "episode/turns": 2.91,
    "episode/tokens": 131.4,
    "rollout/tokens_per_second": 3200.0,
    "time/rollout": 3.5,
    "time/update": 1.4,
    "time/weights": 0.1,
    "time/step": 6.0,
    "loss": 0.1,
}


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(("answer", "agreed"), [("y\n", True), ("\n", False), ("", False)])
def test_a_question_waits_for_an_answer_and_only_yes_is_one(
    monkeypatch: pytest.MonkeyPatch, live: bool, answer: str, agreed: bool
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    stream = io.StringIO()
    with TrainDisplay(stream=stream, live=live) as display:
        assert display.confirm("Run it?") is agreed
        display.begin(0, 30)
    assert stream.getvalue().count("Run it? [y/N] ") == 1


def shown(live: bool) -> str:
    stream = io.StringIO()
    with TrainDisplay(stream=stream, live=live) as display:
        display.begin(0, 30)
        display.episodes(3, 128, "rollout")
        display.step(1, METRICS)
        display.note("[bold] is no markup, :bug: no bug, \x1b[2J no command")
    return stream.getvalue()


def test_a_plain_display_writes_one_line_a_step_without_control_characters() -> None:
    lines = shown(live=False).splitlines()
    assert lines[0].startswith("step 1/30  reward 0.512  exact match 0.500  turns 2.9  tokens 131  tokens/s 3,200")
    assert lines[0].endswith("s/step 5.0 (update 1.4)  2:54 left"), "an evaluation is no part of a step"
    assert lines[1] == r"[bold] is no markup, :bug: no bug, \x1b[2J no command"
    assert len(lines) == 2
    assert "\x1b" not in "".join(lines)


def test_a_live_display_shows_bar_figures_and_time_left_and_keeps_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown(live=True))
    assert "1/30" in text
    assert "reward 0.512" in text
    assert "2:54 left" in text
    assert r"[bold] is no markup, :bug: no bug, \x1b[2J no command" in text


def test_a_file_or_pipe_gets_plain_lines() -> None:
    assert TrainDisplay(stream=io.StringIO()).live is False


def test_an_evaluation_is_told_with_interval_and_number() -> None:
    trajectory = make_trajectory([([1, 2], [3, 4])])
    result = report([EpisodeRecord.of(trajectory)], sampling={"greedy": True})
    stream = io.StringIO()
    with TrainDisplay(stream=stream, live=False) as display:
        display.evaluation(0, result)
        display.evaluation(10, result)
    before, after = stream.getvalue().splitlines()
    assert before.startswith("evaluation before training: ")
    assert after.startswith("evaluation after step 10: ")
    assert "n = 1" in after
    assert "95 %" in after


def test_figures_that_were_not_measured_are_left_out() -> None:
    assert summary({"reward/mean": 1.0}) == ["reward 1.000"]


def test_the_last_step_has_no_time_left() -> None:
    stream = io.StringIO()
    with TrainDisplay(stream=stream, live=False) as display:
        display.begin(0, 2)
        display.step(2, METRICS)
    assert "left" not in stream.getvalue()


def test_the_bar_of_a_resumed_run_begins_where_it_stood() -> None:
    stream = io.StringIO()
    with TrainDisplay(stream=stream, live=True) as display:
        display.begin(12, 30)
    assert "12/30" in stream.getvalue()


def test_a_live_display_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    stream = io.StringIO()
    with TrainDisplay(stream=stream, live=True) as display:
        display.note("a warning of the recipe")
        assert "loading torch and the model" in stream.getvalue()
        display.begin(0, 30)
        display.episodes(12, 200, "evaluation")
    assert "evaluation 12/200" in stream.getvalue()
    assert "rollout" not in stream.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(42.4, "42 s"), (185, "3:05"), (7800, "2:10:00"), (59.7, "1:00")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
