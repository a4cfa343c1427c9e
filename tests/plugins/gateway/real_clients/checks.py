"""Of every token that a policy sampled: trained exactly once, and never encoded again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields

from agent_r1_core import Trajectory
from agent_r1_core.contracts.engine import Generation, Request
from agent_r1_core.testing import ScriptedPolicy


class RecordingPolicy(ScriptedPolicy):
    """A scripted policy that keeps what it was asked and what it sampled."""

    def __init__(self, script: object) -> None:
        super().__init__(script)  # type: ignore[arg-type]
        self.sampled: dict[str, list[tuple[Request, Generation]]] = defaultdict(list)
        """By episode, in order."""

    async def generate(self, request: Request) -> Generation:
        """As the script says."""
        generation = await super().generate(request)
        self.sampled[request.episode].append((request, generation))
        return generation


@dataclass
class Counts:
    """Tokens and episodes."""

    episodes: int = 0
    requests: int = 0
    segments: int = 0
    calls: int = 0
    cut: int = 0
    sampled: int = 0
    trained_once: int = 0
    trained_otherwise: int = 0
    """Sampled tokens that are trained twice or never, and others that are trained."""
    encoded_again: int = 0
    """Assistant's messages that a request brought as text, and not as ids that were sampled."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


def counted(trajectory: Trajectory, sampled: list[tuple[Request, Generation]]) -> Counts:
    """What became of the tokens that were sampled in an episode.

    Raises:
        AssertionError: an action is not what was sampled, behind the very ids that the policy saw.
    """
    claimed = [[0] * len(segment.ids) for segment in trajectory.segments]
    for turn, (request, generation) in zip(trajectory.turns, sampled, strict=True):
        segment = trajectory.segments[turn.segment]
        assert tuple(segment.ids[: turn.start]) == request.ids, f"turn {turn.index}: another context than was seen"
        assert tuple(segment.ids[turn.start : turn.stop]) == generation.ids, f"turn {turn.index}: other ids"
        assert segment.logprobs[turn.start : turn.stop] == list(generation.logprobs)
        for at in range(turn.start, turn.stop):
            claimed[turn.segment][at] += 1
    pairs = [
        pair
        for claims, segment in zip(claimed, trajectory.segments, strict=True)
        for pair in zip(claims, segment.mask, strict=True)
    ]
    return Counts(
        episodes=1,
        requests=len(sampled),
        segments=len(trajectory.segments),
        calls=sum(len(turn.calls) for turn in trajectory.turns),
        cut=sum(turn.finish == "length" for turn in trajectory.turns),
        sampled=sum(len(generation.ids) for _, generation in sampled),
        trained_once=pairs.count((1, 1)),
        trained_otherwise=sum(claim != mask or claim > 1 for claim, mask in pairs),
        encoded_again=sum(m["role"] == "assistant" for turn in trajectory.turns for m in turn.observation),
    )
