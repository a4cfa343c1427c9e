"""ThoughtfulTurn: a turn's ids, cut where its thought ends, so that its action can be scored after another thought."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_r1_core.trajectory import Turn

Decode = Callable[[Sequence[int]], str]
Ids = list[int]


@dataclass(frozen=True)
class ThoughtfulTurn:
    """A turn whose action follows a thought, as ids."""

    number: int
    """Whose turn it is: the number of a group, or of an episode."""
    before: Ids
    """The context, and what opens the thought."""
    thought: Ids
    closing: Ids
    action: Ids
    """The rest of the turn."""

    @classmethod
    def of(cls, number: int, turn: Turn, ids: Sequence[int], decode: Decode) -> ThoughtfulTurn | None:
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
        return cls(number, [*ids[: turn.start], *own[:begin]], thought, own[close:end], action)

    def after(self, thought: Ids) -> Ids:
        """What the action would have followed, with another thought."""
        return [*self.before, *thought, *self.closing]
