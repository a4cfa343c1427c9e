"""PackedTrajectory: an episode on its way between processes, which nobody unpacks who need not look into it.

The controller of a run handles every episode and looks into few: it asks for returns, versions and counts, which travel
beside the packed turns and tokens. Nobody has to know of it: an episode that is looked into, or changed, becomes an
ordinary trajectory.
"""

from __future__ import annotations

import pickle
import zlib
from array import array
from dataclasses import fields
from operator import attrgetter
from typing import Any

from agent_r1_core.metrics.tally import Tally, tally
from agent_r1_core.trajectory import EndStatus, Segment, Task, Trajectory

_INSIDE = ("segments", "turns", "closing", "rewards", "hinted")
"""The fields that are packed: all that can be changed in place, so that what travels beside them stays true."""
BESIDE = (
    "sample", "status", "reason", "bootstrap", "answer", "reward", "seed", "policy_version", "attempts",
    "seconds", "tool_seconds", "baseline", "demonstrated", "examples", "player", "others",
    "branched_from", "repeated_turns",
)  # fmt: skip
_beside = attrgetter(*BESIDE)


def packed(trajectory: Trajectory) -> Trajectory:
    """The same episode, packed; itself, if it failed or holds what is not plain data."""
    if trajectory.status is EndStatus.FAILED:
        return trajectory
    trajectory.others = tuple(map(packed, trajectory.others))
    try:
        segments = [_packed(segment) for segment in trajectory.segments]
        others = (getattr(trajectory, name) for name in _INSIDE[1:])
        inside = pickle.dumps((segments, *others), protocol=5)
        beside = pickle.dumps((_beside(trajectory), tally(trajectory)), protocol=5)
    except (pickle.PicklingError, TypeError, ValueError, AttributeError, OverflowError):
        return trajectory
    return PackedTrajectory(trajectory.task, beside, zlib.compress(inside, 1))


class PackedTrajectory(Trajectory):
    """A trajectory whose turns and tokens are packed until somebody reads them, or changes anything.

    Args:
        beside: the other fields and the tally, pickled, so that they are sent on as they came.
        inside: the packed fields.
    """

    def __init__(self, task: Task, beside: bytes, inside: bytes) -> None:
        values, own = pickle.loads(beside)
        self.__dict__.update(zip(BESIDE, values, strict=True), task=task, _tally=own, _sent=(beside, inside))

    @property
    def tally(self) -> Tally:
        """What was counted where it was played."""
        found: Tally = self.__dict__["_tally"]
        return found

    def belong(self, task: Task) -> None:
        """Take the receiver's own task, which is the same, in place of the one that came along, or of none."""
        for one in (self, *self.others):
            vars(one)["task"] = task

    @property
    def total_reward(self) -> float:
        """The return."""
        return self.tally.total_reward

    @property
    def success(self) -> bool | None:
        """What the environment said about its goal in its last step."""
        return self.tally.success

    @property
    def tokens_by_version(self) -> dict[int, int]:
        """Sampled tokens by the version of the weights, as far as it is known."""
        return self.tally.versions

    @property
    def action_tokens(self) -> int:
        """Tokens that the policy sampled."""
        return self.tally.action_tokens

    @property
    def tokens(self) -> int:
        """All tokens of all segments."""
        return self.tally.tokens

    def __getattr__(self, name: str) -> Any:
        if name not in _INSIDE:
            raise AttributeError(f"a Trajectory has no attribute {name!r}")
        self._unpack()
        return getattr(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._unpack()
        setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        self._unpack()
        return self == other

    def __reduce__(self) -> tuple[Any, ...]:
        sent = self.sent()
        if sent is None:
            return Trajectory, tuple(getattr(self, field.name) for field in fields(Trajectory))
        return PackedTrajectory, (self.task, *sent)

    def sent(self) -> tuple[bytes, bytes] | None:
        """What it was made of; None: another thread has just unpacked it."""
        found: tuple[bytes, bytes] | None = self.__dict__.get("_sent")
        return found

    def _unpack(self) -> None:
        """Become an ordinary trajectory."""
        own, sent = self.__dict__, self.sent()
        if sent is None:
            return
        segments, *others = pickle.loads(zlib.decompress(sent[1]))
        own.update(zip(_INSIDE, ([_unpacked(*one) for one in segments], *others), strict=True))
        object.__setattr__(self, "__class__", Trajectory)
        for name in ("_tally", "_sent", "_stored", "_others"):
            own.pop(name, None)


@tally.register
def _(trajectory: PackedTrajectory) -> Tally:
    return trajectory.tally


def _packed(segment: Segment) -> tuple[Any, ...]:
    """A segment with numbers as bytes; its log-probs in single precision where that loses nothing."""
    logprobs = array("f", segment.logprobs)
    if logprobs.tolist() != segment.logprobs:
        logprobs = array("d", segment.logprobs)
    return array("i", segment.ids), bytes(segment.mask), logprobs, segment.prompt_length


def _unpacked(ids: array[int], mask: bytes, logprobs: array[float], prompt_length: int) -> Segment:
    return Segment(ids.tolist(), list(mask), logprobs.tolist(), prompt_length)
