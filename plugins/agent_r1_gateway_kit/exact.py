"""What a gateway reports of an episode, and whether exactly what was sampled would be trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


class NotExact(AssertionError):
    """Tokens are trained that nobody sampled, or sampled ones not, or twice, or in another context."""


class EncodedAgain(AssertionError):
    """Each reply is trained once, but one that the program continued was encoded again: the engine read other ids than
    it had sampled, and no segment can hold both turns."""


@dataclass(frozen=True)
class Sampled:
    """An action as the engine sampled it."""

    action: int
    """Its place in the policy's script; -1: the script had none left."""
    prompt: tuple[int, ...]
    """What the engine read before."""
    ids: tuple[int, ...]
    context: str
    """The prompt, decoded."""
    logprobs: tuple[float, ...] | None = None

    @property
    def through(self) -> tuple[int, ...]:
        """What the engine had read and said when the action was over."""
        return self.prompt + self.ids


@dataclass(frozen=True)
class Segment:
    """One sequence that would be trained."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Report:
    """Both sides of an episode: what the engine sampled, in order, and what would be trained."""

    sampled: tuple[Sampled, ...]
    segments: tuple[Segment, ...]
    failed: str | None
    """Why the episode is dropped; None: it counts."""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Report:
        """From JSON."""
        sampled = tuple(
            Sampled(one["action"], tuple(one["prompt"]), tuple(one["ids"]), one["context"], _floats(one))
            for one in given["sampled"]
        )
        segments = tuple(Segment(tuple(one["ids"]), tuple(one["mask"]), _floats(one)) for one in given["segments"])
        return cls(sampled, segments, given.get("failed"))

    def action(self, number: int) -> Sampled:
        """The sampled one with this place in the script."""
        found = [one for one in self.sampled if one.action == number]
        if len(found) != 1:
            raise NotExact(f"the engine reports action {number} {len(found)} times, and the program read it")
        return found[0]

    def check(self, conversations: Sequence[Sequence[int]]) -> None:
        """Whether the actions of these conversations are trained, each token once and in its context, and nothing else
        is; and whether the engine read the very ids of what a conversation continues.

        Raises:
            NotExact, EncodedAgain: no.
        """
        if self.failed is not None:
            raise NotExact(f"the episode failed: {self.failed}")
        free = [set[int](position for position, kept in enumerate(one.mask) if kept) for one in self._whole()]
        for number in (number for conversation in conversations for number in conversation):
            self._claim(self.action(number), free)
        for number, left in enumerate(free):
            if left:
                raise NotExact(f"segment {number} trains {len(left)} tokens too many: {self._whose(number, left)}")
        for conversation in conversations:
            for before, after in pairwise(conversation):
                said, following = self.action(before).through, self.action(after).prompt
                if following[: len(said)] != said:
                    same = next(
                        i for i, pair in enumerate(zip(said, (*following, -1), strict=False)) if len({*pair}) > 1
                    )
                    begin = len(self.action(before).prompt)
                    where = f"its id {same - begin}" if same >= begin else f"id {same} of its context"
                    raise EncodedAgain(
                        f"action {after} continues action {before}, but not with its ids: {where} differs"
                    )

    def _whole(self) -> Iterator[Segment]:
        for number, one in enumerate(self.segments):
            if len(one.ids) != len(one.mask) or not {*one.mask} <= {0, 1}:
                raise NotExact(f"the mask of segment {number} is not a 0 or 1 for each of its ids")
            yield one

    def _claim(self, one: Sampled, free: list[set[int]]) -> None:
        """Find the action in a segment, and take its positions out of those that are free."""
        start, stop = len(one.prompt), len(one.through)
        for segment, left in zip(self.segments, free, strict=True):
            span = set(range(start, stop))
            if span <= left and stop not in left and segment.ids[:stop] == one.through:
                if one.logprobs is not None and segment.logprobs is not None:
                    apart = max(abs(a - b) for a, b in zip(one.logprobs, segment.logprobs[start:stop], strict=True))
                    if apart > 1e-6:
                        raise NotExact(f"the log-probs of action {one.action} are not the engine's ({apart:.3g} apart)")
                left -= span
                return
        begins = any(segment.ids[:stop] == one.through for segment in self.segments)
        why = (
            "its mask is 0 or another reply's"
            if begins
            else "no segment holds it behind the prompt that the engine read"
        )
        raise NotExact(f"action {one.action}, which the program read, is not trained once: {why}")

    def _whose(self, segment: int, positions: set[int]) -> str:
        ids = self.segments[segment].ids
        for one in self.sampled:
            if {*range(len(one.prompt), len(one.through))} <= positions and ids[: len(one.through)] == one.through:
                return f"action {one.action}, which nobody read, or which is trained already"
        return f"ids {[ids[position] for position in sorted(positions)][:8]}, which the engine did not sample there"


def _floats(given: dict[str, Any]) -> tuple[float, ...] | None:
    values = given.get("logprobs")
    return None if values is None else tuple(values)
