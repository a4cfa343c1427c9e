"""What the API says of messages, tasks and single texts of an episode."""

from __future__ import annotations

import pytest
from agent_r1_viewer.episode_answer import LONGEST, messages, task_answer, text_part

from agent_r1_core.errors import RunError
from agent_r1_core.testing import make_trajectory
from agent_r1_core.testing.trajectories import make_task
from agent_r1_core.trajectory import Message


def test_a_message_keeps_its_name_and_says_how_long_it_was() -> None:
    said: list[Message] = [
        {"role": "tool", "name": "lookup", "content": "Rome"},
        {"role": "user", "content": "x" * (LONGEST + 1)},
    ]
    assert messages(said) == [
        {"role": "tool", "name": "lookup", "content": "Rome"},
        {"role": "user", "content": "x" * LONGEST, "cut": LONGEST + 1},
    ]


def test_a_seed_is_text_since_it_is_too_large_for_a_browser() -> None:
    seeds = [task_answer(make_task("a", "Where?", ("Rome",), seed=seed))["seed"] for seed in (None, 2**60)]
    assert seeds == [None, "1152921504606846976"]


@pytest.mark.parametrize("part", ["closing.1", "closing.-1", "closing.x", "turns.9.text", "thoughts"])
def test_a_text_that_is_not_there_is_one_sentence(part: str) -> None:
    one = make_trajectory()
    one.closing = [{"role": "tool", "content": "That was all."}]
    assert text_part(one, "closing.0") == "That was all."
    with pytest.raises(RunError, match=r"has no text .*; name one such as turns\.0\.text"):
        text_part(one, part)
