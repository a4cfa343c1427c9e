"""Episodes on paper: every id once, actions marked, rewards beside their turns."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest

from agent_r1_cli.transcript import Transcript, episode_json
from agent_r1_core.testing import make_trajectory
from agent_r1_core.trajectory import CallRecord, EndStatus, Trajectory


def decode(ids: Sequence[int]) -> str:
    return "".join(chr(ord("a") + index) for index in ids)


def written(trajectory: Trajectory, colour: bool = False) -> str:
    stream = io.StringIO()
    transcript = Transcript(stream, colour=colour)
    transcript.legend()
    transcript.episode(trajectory, decode)
    return stream.getvalue()


def two_turns() -> Trajectory:
    trajectory = make_trajectory(
        [([0, 1], [2, 3]), ([4], [5, 6])],
        turn_rewards=[0.5, 0.0],
        reward=1.0,
        rewards={"exact_match": 1.0},
        closing=[7],
        answer="2",
        reason="answer",
    )
    trajectory.turns[0].rewards = {"env": 0.0, "polite": 0.25}
    trajectory.turns[1].errors = ["no answer"]
    trajectory.turns[1].calls = [CallRecord("search", error="Error: hung.")]
    return trajectory


def test_actions_stand_in_brackets_or_are_coloured_and_plain_data_has_ids_mask_and_rewards() -> None:
    lines = written(two_turns()).splitlines()
    assert lines[0].startswith("[[sampled by the policy (action mask 1)]]")
    assert lines[2] == "episode task/0: terminated (answer), 2 turns, 8 tokens, 4 of them sampled"
    assert lines[3:6] == ["ab[[cd]]", "  turn 0: reward 0.500 (polite 0.250)", "e[[fg]]"]
    assert lines[6] == "  turn 1: reward 0.000; no answer; search: Error: hung."
    assert lines[7] == "h"
    assert lines[8:11] == [
        "  answer '2', accepted: '2'",
        "  outcome reward 1.000 (exact_match 1.000)",
        "  return 1.500",
    ]
    assert "\x1b" not in "".join(lines)
    data = episode_json(two_turns(), decode)
    (segment,) = data["segments"]
    assert segment == {"ids": list(range(8)), "mask": [0, 0, 1, 1, 0, 1, 1, 0], "text": "abcdefgh"}
    assert data["turns"][0]["rewards"] == {"env": 0.0, "polite": 0.25}
    assert (data["return"], data["status"], data["answer"]) == (1.5, "terminated", "2")
    text = written(two_turns(), colour=True)
    assert "\x1b[1;32mcd\x1b[0m" in text
    assert "\x1b[2mab\x1b[0m" in text
    assert "[[" not in text
    stream = io.StringIO()
    Transcript(stream, colour=True).episode(two_turns(), lambda ids: "[red] :bug:")
    assert "[red] :bug:" in stream.getvalue(), "text that looks like markup is printed as it is"


@pytest.mark.parametrize("colour", [False, True])
def test_what_a_model_or_a_tool_says_does_not_act_on_the_terminal(colour: bool) -> None:
    trajectory = two_turns()
    trajectory.reason = "\x1b[2J"
    trajectory.turns[1].calls = [CallRecord("search", error="Error: no.\n  return 9.000\x9b1A")]
    stream = io.StringIO()
    Transcript(stream, colour=colour).episode(trajectory, lambda ids: "paid\r\x1b]0;free\x07\u202e\n")
    text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert text.count(r"paid\r\x1b]0;free\x07\u202e") == 5
    assert r"terminated (\x1b[2J)" in text
    assert r"search: Error: no.\n  return 9.000\x9b1A" in text
    assert not re.search("[\r\x1b\x07\x9b\u202e]", text)


def test_a_summary_a_rewritten_context_and_a_cut_action_are_told() -> None:
    turns = [([0], [1]), ([2], [3]), ([4], [5])]
    trajectory = make_trajectory(turns, new_segment_at={2}, status=EndStatus.TRUNCATED)
    trajectory.turns[1].purpose, trajectory.turns[1].errors = "summary", ["the summary is empty"]
    trajectory.turns[2].finish = "length"
    told = written(trajectory)
    assert "2 turns, 1 summaries, 6 tokens" in told
    assert "turn 1: a summary, with which the context begins anew; the summary is empty" in told
    assert "--- segment 1: the context was rewritten ---" in told
    assert "cut by the token budget" in told
    assert "no answer, accepted: '2'" in told
    assert [turn["purpose"] for turn in episode_json(trajectory, decode)["turns"]] == ["action", "summary", "action"]
