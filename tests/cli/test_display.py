"""The training display: plain lines where nobody watches, a bar where somebody does."""

from __future__ import annotations

import io
import re

import pytest

from agent_r1_cli import display as display_module
from agent_r1_cli.display import TimeShares, TrainDisplay, summary

METRICS = {"reward/mean": 0.5123, "reward/exact_match": 0.5, "episode/turns": 2.91, "episode/tokens": 131.4}
METRICS |= {"loss": 0.1, "time/rollout": 3.5, "time/update": 1.4, "time/weights": 0.1, "time/step": 6.0}
METRICS |= {"rollout/tokens_per_second": 3200.0, "time/learner_waits": 4.6 / 6, "time/rollouts_wait": 2.5 / 6}


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize(("answer", "agreed"), [("y\n", True), ("\n", False), ("", False)])
def test_a_question_waits_for_an_answer_and_only_yes_is_one(monkeypatch, live, answer, agreed):
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


def test_a_plain_display_writes_one_line_a_step_without_control_characters():
    assert TrainDisplay(stream=io.StringIO()).live is False, "a file or a pipe gets plain lines"
    assert summary({"reward/mean": 1.0}) == ["reward 1.000"], "what was not measured is left out"
    lines = shown(live=False).splitlines()
    assert lines[0].startswith("step 1/30  reward 0.512  exact match 0.500  turns 2.9  tokens 131  tokens/s 3,200")
    assert lines[0].endswith("s/step 5.0 (update 1.4)  2:54 left"), "an evaluation is no part of a step"
    assert (lines[1], len(lines)) == (r"[bold] is no markup, :bug: no bug, \x1b[2J no command", 2)
    assert "\x1b" not in "".join(lines)
    last = io.StringIO()
    with TrainDisplay(stream=last, live=False) as display:
        display.begin(0, 2)
        display.step(2, METRICS)
    assert "left" not in last.getvalue(), "the last step has no time left"


def test_a_live_display_says_what_it_waits_for_keeps_notes_and_obeys_none(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown(live=True))
    assert r"[bold] is no markup, :bug: no bug, \x1b[2J no command" in text
    stream = io.StringIO()
    with TrainDisplay(stream=stream, live=True) as display:
        display.note("a warning of the recipe")
        assert "loading torch and the model" in stream.getvalue()
        display.begin(0, 30)
        display.episodes(12, 200, "evaluation")
    assert "evaluation 12/200" in stream.getvalue()
    assert "rollout" not in stream.getvalue()


def screen(columns: int, monkeypatch: pytest.MonkeyPatch, encoding: str = "utf-8", earlier: int = 0) -> list[str]:
    """The last lines of a live display in the third of 30 steps; an earlier attempt recorded some more steps."""
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    with TrainDisplay(stream=stream, live=True) as display:
        display.recall([{"step": step, "reward/mean": -float(step)} for step in range(1, earlier + 1)])
        display.begin(0 if not earlier else 2, 30)
        for step, reward in enumerate((0.25, 1.0, 0.5123), start=1 + 2 * bool(earlier)):
            display.step(step, {**METRICS, "reward/mean": reward, "time/evaluation": 0.6})
        display.episodes(12, 128, "rollout")
    stream.seek(0)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.read()).replace("\r", "\n")
    lines = [line.rstrip() for line in text.split("\n")]
    assert max(map(len, lines)) <= columns
    return [line for line in lines if line][-4:]


WIDE = [
    "reward 0.512 ▁█▃ 0.25 to 1",
    "exact match 0.500  turns 2.9  tokens 131  tokens/s 3,200  s/step 5.0",
    "time  rollout 58 %  update 23 %  weights 2 %  evaluation 10 %  other 7 %  learner waits 77 %",
]
NARROW = [WIDE[0], "exact match 0.500  turns 2.9  tokens 131", "time  rollout 58 %  update 23 %"]


@pytest.mark.parametrize(("columns", "bar", "lines"), [(100, 24, WIDE), (40, 9, NARROW)])
def test_a_terminal_shows_the_reward_and_where_the_time_goes_as_far_as_it_fits_whole(monkeypatch, columns, bar, lines):
    first, *others = screen(columns, monkeypatch)
    assert re.fullmatch(rf"3/30 [━╸╺]{{{bar}}} 2:42 left  rollout 12/128", first)
    assert others == lines


def test_a_plain_terminal_gets_plain_characters_and_a_resumed_run_its_earlier_steps(monkeypatch):
    assert screen(100, monkeypatch, "ascii")[1] == "reward 0.512 _#: 0.25 to 1"
    bar, reward, *_ = screen(100, monkeypatch, earlier=9)
    assert bar.startswith("5/30 ")
    assert reward == "reward 0.512 ▃▁▆█▇ -2 to 1", "steps that are repeated do not count twice"


def test_an_evaluation_by_itself_says_how_long_it_will_take(monkeypatch):
    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    clock, stream, lines = Clock(), io.StringIO(), io.StringIO()
    monkeypatch.setattr(display_module, "time", clock)
    monkeypatch.setattr("agent_r1_core.work.work.time", clock)
    with TrainDisplay(stream=stream, live=True) as display, TrainDisplay(stream=lines, live=False) as plain:
        for done in range(1, 78):
            clock.now += 1
            display.episodes(done, 200, "evaluation")
            plain.episodes(done, 200, "evaluation")
    assert "2:03 left  evaluation" in stream.getvalue()
    assert lines.getvalue().splitlines() == [
        "evaluation: 31 of 200 episodes, 16 %, 2:49 left",
        "evaluation: 61 of 200 episodes, 30 %, 2:19 left",
    ]


SHARED = {"time/step": 10.0, "time/rollout": 6.0, "time/update": 2.0, "time/weights": 1.0}
SHARED |= {"time/learner_waits": 0.8, "time/rollouts_wait": 0.4}


def test_parts_that_follow_one_another_add_up_and_roles_at_once_have_the_time_in_which_each_works():
    shares = TimeShares()
    shares.add(SHARED)
    waits = {"time/learner_waits": 14 / 15, "time/rollouts_wait": 0.8}
    shares.add({**SHARED, "time/step": 30.0, "time/evaluation": 20.0, **waits})
    parts = ["rollout 30 %", "update 10 %", "weights 5 %", "evaluation 50 %", "other 5 %"]
    assert shares.texts() == [*parts, "learner waits 90 %", "rollouts wait 70 %"]
    shares = TimeShares()
    waits = {"time/learner_waits": 0.3, "time/rollouts_wait": 0.05}
    shares.add({**SHARED, "time/rollout": 1.0, "time/update": 7.0, **waits})
    parts = ["rollout 95 %", "update 70 % at the same time", "learner waits 30 %", "rollouts wait 5 %"]
    assert shares.texts() == [*parts, "weights 10 %", "evaluation 0 %"]
