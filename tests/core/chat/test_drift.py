"""What the drift guard notices beside the faults that the test of LAW 1 plants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent_r1_core.chat import ChatTokenizer, DriftGuard, Sampled
from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.errors import DriftError
from agent_r1_core.testing import make_trajectory, tiny_tokenizer
from agent_r1_core.trajectory import Trajectory

TURNS = (([65, 66], [67, 68]), ([69], [70]), ([71], [72]))
"""The third begins a segment."""
Spoil = Callable[[Trajectory, list[Sampled]], object]


def an_id_lost_at_the_end(episode: Trajectory, sampled: list[Sampled]) -> None:
    sampled[1] = replace(sampled[1], ids=(70, 71))


def another_context(episode: Trajectory, sampled: list[Sampled]) -> None:
    sampled[0] = replace(sampled[0], digest=123)


def a_mask_after_the_last_turn(episode: Trajectory, sampled: list[Sampled]) -> None:
    episode.segments[1].mask[-1] = 1


def a_lost_turn(episode: Trajectory, sampled: list[Sampled]) -> None:
    sampled.pop()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (an_id_lost_at_the_end, r"turn 1, token 6 \(missing\): the action's ids are not those"),
        (another_context, "turn 0.*conditioned on other ids than it was sent"),
        (a_mask_after_the_last_turn, r"after turn 2, token 2 \(id 73, .*nobody sampled"),
        (a_lost_turn, "3 turns and 2 generations"),
    ],
)
def test_a_fault_is_named(spoil: Spoil, sentence: str) -> None:
    episode = make_trajectory(TURNS, new_segment_at=[2], closing=[73])
    contexts = ((65, 66), (65, 66, 67, 68, 69), (71,))
    sampled = [
        Sampled(context, tuple(ids), context_digest(context)) for context, (_, ids) in zip(contexts, TURNS, strict=True)
    ]
    guard = DriftGuard("tiny", ChatTokenizer(tiny_tokenizer()))
    guard.check_trajectory(episode, sampled)
    spoil(episode, sampled)
    with pytest.raises(DriftError, match=sentence):
        guard.check_trajectory(episode, sampled)
