"""DriftGuard: compares what the engine saw and sampled with what will be trained (LAW 1).

The engine reports only a checksum of the ids that it saw. Where nothing but the checksum differs, the error names the
last token before the action, since the token at fault is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_r1_core.chat.tokenizer import ChatTokenizer
from agent_r1_core.contracts.engine import context_digest
from agent_r1_core.errors import DriftError
from agent_r1_core.trajectory import Trajectory, Turn


@dataclass(frozen=True)
class Sampled:
    """One generation as it happened."""

    sent: tuple[int, ...]
    """Ids of the request."""
    ids: tuple[int, ...]
    """Ids that the engine sampled."""
    digest: int
    """`Generation.context`: the checksum of the ids that the engine conditioned on."""


class DriftGuard:
    """Raises when a trajectory is not what was sampled."""

    def __init__(self, model: str, tokenizer: ChatTokenizer) -> None:
        self._model = model or tokenizer.name
        self._tokenizer = tokenizer

    def check_trajectory(self, trajectory: Trajectory, sampled: Sequence[Sampled]) -> None:
        """Compare every turn of a finished trajectory with its generation.

        Raises:
            DriftError: naming model, turn and token.
        """
        if len(sampled) != len(trajectory.turns):
            raise DriftError(
                f"{self._model}: episode {trajectory.id} has {len(trajectory.turns)} turns and {len(sampled)} "
                "generations; every action must be trained once"
            )
        for turn, generation in zip(trajectory.turns, sampled, strict=True):
            self._check_turn(trajectory, turn, generation)
        self._check_context(trajectory)

    def _check_turn(self, trajectory: Trajectory, turn: Turn, generation: Sampled) -> None:
        segment = trajectory.segments[turn.segment]
        kept = segment.ids[: turn.start]
        where = f"{self._model}: episode {trajectory.id}, turn {turn.index}"
        if context_digest(kept) != generation.digest:
            differs = _first_difference(generation.sent, kept)
            token = self._token(kept, turn.start - 1 if differs is None else differs)
            cause = "the engine conditioned on other ids than it was sent" if differs is None else "the context changed"
            raise DriftError(f"{where}, {token}: {cause}, so training would see other ids than sampling did")
        action = segment.ids[turn.start : turn.stop]
        differs = _first_difference(generation.ids, action)
        if differs is not None:
            token = self._token(segment.ids, turn.start + differs)
            raise DriftError(f"{where}, {token}: the action's ids are not those that were sampled")
        mask = segment.mask[turn.start : turn.stop]
        excluded = [turn.start + offset for offset, value in enumerate(mask) if value != 1]
        if excluded:
            raise DriftError(f"{where}, {self._token(segment.ids, excluded[0])}: a sampled id has action mask 0")

    def _check_context(self, trajectory: Trajectory) -> None:
        """Refuse action mask 1 outside the actions: such ids would be trained, though the engine never sampled them."""
        for number, segment in enumerate(trajectory.segments):
            turns = [turn for turn in trajectory.turns if turn.segment == number]
            if sum(segment.mask) == sum(turn.tokens for turn in turns):
                continue
            sampled = {at for turn in turns for at in range(turn.start, turn.stop)}
            at = next(at for at, value in enumerate(segment.mask) if value and at not in sampled)
            before = [turn.index for turn in turns if turn.stop <= at]
            where = f"after turn {before[-1]}" if before else f"before the first turn of segment {number}"
            raise DriftError(
                f"{self._model}: episode {trajectory.id}, {where}, {self._token(segment.ids, at)}: "
                "an id that nobody sampled has action mask 1"
            )

    def _token(self, ids: Sequence[int], position: int) -> str:
        if not 0 <= position < len(ids):
            return f"token {position} (missing)"
        return f"token {position} (id {ids[position]}, {self._tokenizer.decode([ids[position]])!r})"


def _first_difference(first: Sequence[int], second: Sequence[int]) -> int | None:
    """Index of the first id that differs, or at which one sequence ends; None if they are equal."""
    for index, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return index
    return None if len(first) == len(second) else min(len(first), len(second))
