"""Does an action depend on the thought before it? How much less likely it is after no thought, or after another one.

With an action a of |a| tokens (all that follows the turn's first `<think>` block), its context c with the thought t, an
empty thought in its place, and a thought t' of another episode, of another task where there is one,

    effect = ( log p(a | c, t) - max[ log p(a | c, empty), log p(a | c, t') ] ) / |a|,  the mean over turns, in nats,

so that a thought must beat both: an empty one alone may only look odd to a policy that always thinks. 0 or less says
that the action would have been the same. Whether the thought is true plays no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from agent_r1_core.chat.thinking import Decode, Ids, ThoughtfulTurn
from agent_r1_core.trajectory import Group

GROUPS = 8
"""Groups of a measurement."""
SAMPLES = 4
"""Episodes of each, with one turn of each episode."""


Compared = tuple[list[Ids], Ids]
"""What stands before an action with its own thought, with an empty one and with another episode's; the action."""


def compared_turns(groups: Sequence[Group], decode: Decode) -> list[Compared]:
    """What a measurement scores: turns of the first groups that think; none if no two episodes think differently."""
    chosen: list[ThoughtfulTurn] = []
    for number, group in enumerate(groups):
        if len({one.number for one in chosen}) < GROUPS:
            chosen += _of_group(number, group, decode)
    turns: list[Compared] = []
    for place, one in enumerate(chosen):
        others = [other for other in (*chosen[place + 1 :], *chosen[:place]) if other.thought != one.thought]
        others.sort(key=lambda other: other.number == one.number)
        if others:
            turns.append(([one.after(thought) for thought in (one.thought, [], others[0].thought)], one.action))
    return turns


def _of_group(number: int, group: Group, decode: Decode) -> list[ThoughtfulTurn]:
    """A turn each of the group's first episodes that think: of those with a thought another one in each episode."""
    found: list[ThoughtfulTurn] = []
    for sample, trajectory in enumerate(group.trajectories[:SAMPLES]):
        cut = [
            ThoughtfulTurn.of(number, turn, trajectory.segments[turn.segment].ids, decode) for turn in trajectory.steps
        ]
        turns = [one for one in cut if one is not None]
        found += turns[sample % len(turns) :][:1] if turns else []
    return found


def thought_effect(logprobs: Sequence[Sequence[float]], turns: Sequence[Compared]) -> float:
    """The effect, nats per token of an action.

    Args:
        logprobs: of each turn's action after each of the three, [turns][3], nats.
    """
    rows = zip(logprobs, turns, strict=True)
    return fmean((own - max(empty, other)) / len(action) for (own, empty, other), (_, action) in rows)
