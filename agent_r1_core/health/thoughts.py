"""Does an action depend on the thought before it? How much less likely it is after no thought, or after another one.

With an action a of |a| tokens (all that follows the turn's first `<think>` block), its context c with the thought t, an
empty thought in its place, and a thought t' of another episode, of another task where there is one,

    effect = ( log p(a | c, t) - max[ log p(a | c, empty), log p(a | c, t') ] ) / |a|,  the mean over turns, in nats,

so that a thought must beat both: an empty one alone may only look odd to a policy that always thinks. 0 or less says
that the action would have been the same. Whether the thought is true plays no part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from agent_r1_core.trajectory import Group, Turn

GROUPS = 8
"""Groups of a measurement."""
SAMPLES = 4
"""Episodes of each, with one turn of each episode."""
Decode = Callable[[Sequence[int]], str]
Ids = list[int]


@dataclass(frozen=True)
class ThoughtfulTurn:
    """A turn whose action follows a thought, as ids."""

    group: int
    before: Ids
    """The context, and what opens the thought."""
    thought: Ids
    closing: Ids
    action: Ids
    """The rest of the turn."""

    @classmethod
    def of(cls, group: int, turn: Turn, ids: Sequence[int], decode: Decode) -> ThoughtfulTurn | None:
        """The turn cut at the tokens that hold the tags, nothing decoded and encoded again (LAW 1); None if it has no
        thought, or nothing after it.

        Args:
            ids: of the turn's segment.
        """
        own = list(ids[turn.start : turn.stop])
        end = bisect_left(range(len(own) + 1), True, key=lambda n: "</think>" in decode(own[:n]))
        if end > len(own):
            return None
        begin = bisect_left(range(end + 1), True, key=lambda n: "<think>" in decode(own[:n]))
        begin = begin if begin <= end else 0  # the generation prompt opened it
        close = begin + bisect_left(range(begin, end + 1), True, key=lambda n: "</think>" not in decode(own[n:end])) - 1
        thought, action = own[begin:close], own[end:]
        if not decode(thought).strip() or not action:
            return None
        return cls(group, [*ids[: turn.start], *own[:begin]], thought, own[close:end], action)

    def after(self, thought: Ids) -> Ids:
        """What the action would have followed, with another thought."""
        return [*self.before, *thought, *self.closing]


@dataclass(frozen=True)
class Thoughts:
    """What a measurement scores."""

    turns: list[tuple[list[Ids], Ids]]
    """What stands before an action with its own thought, with an empty one and with another episode's; the action."""

    @classmethod
    def of(cls, groups: Sequence[Group], decode: Decode) -> Thoughts | None:
        """Those of the first groups that think; None if no two episodes think different things."""
        chosen: list[ThoughtfulTurn] = []
        for number, group in enumerate(groups):
            if len({one.group for one in chosen}) < GROUPS:
                chosen += _of_group(number, group, decode)
        turns: list[tuple[list[Ids], Ids]] = []
        for place, one in enumerate(chosen):
            others = [other for other in (*chosen[place + 1 :], *chosen[:place]) if other.thought != one.thought]
            others.sort(key=lambda other: other.group == one.group)
            if others:
                turns.append(([one.after(thought) for thought in (one.thought, [], others[0].thought)], one.action))
        return cls(turns) if turns else None


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


def thought_effect(logprobs: Sequence[Sequence[float]], thoughts: Thoughts) -> float:
    """The effect, nats per token of an action.

    Args:
        logprobs: of each turn's action after each of the three, [turns][3], nats.
    """
    rows = zip(logprobs, thoughts.turns, strict=True)
    return fmean((own - max(empty, other)) / len(action) for (own, empty, other), (_, action) in rows)
