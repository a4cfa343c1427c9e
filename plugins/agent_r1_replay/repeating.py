"""Repeats recorded steps, and says what is not as it was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import RunError
from agent_r1_replay.differences import episode_differences, metric_differences, number_differences

if TYPE_CHECKING:
    from agent_r1_core.evaluation.listener import Listener
    from agent_r1_replay.deriving import Derived, Deriver
    from agent_r1_replay.opened import OpenedRun
    from agent_r1_replay.recorded import RecordedStep


@dataclass(frozen=True)
class Repetition:
    """A step that was repeated."""

    step: int
    played: int | None = None
    """Episodes that were compared; None: nothing was played."""
    episodes: dict[int, list[str]] = field(default_factory=dict)
    """What differs, by the row of the episode."""
    update: list[str] | None = None
    """What differs of the update; None: it was not derived."""
    weights: str | None = None
    """What the derived weights were compared with; None: the run kept none."""

    @property
    def equal(self) -> bool:
        """Whether all is as it was recorded."""
        return not (self.episodes or self.update)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "equal": self.equal}


def repeat(
    opened: OpenedRun, steps: Iterable[int], play: bool, sample: int | None, listener: Listener
) -> Iterator[Repetition]:
    """Repeat steps, the first one of which follows on the checkpoint.

    Args:
        play: sample the episodes of the first step again.
        sample: the row of the one episode to compare; no update is derived then.

    Raises:
        AgentR1Error: nothing can be repeated.
    """
    deriver: Deriver | None = None
    for step in steps:
        recorded = opened.record(step)
        played, episodes = _played(opened, recorded, sample, listener) if play and step == opened.step else (None, {})
        if sample is not None:
            yield Repetition(step, played, episodes)
            continue
        deriver = deriver or opened.deriver(opened.own, listener.note)
        derived = deriver.derive(recorded.trajectories, step)
        update, weights = _update_differences(opened, recorded, deriver, derived)
        yield Repetition(step, played, episodes, update, weights)


def _played(
    opened: OpenedRun, recorded: RecordedStep, sample: int | None, listener: Listener
) -> tuple[int, dict[int, list[str]]]:
    """Sample the episodes of a step again: how many were compared, and what differs."""
    from agent_r1_replay.sampling import sampled_again

    then = recorded.trajectories
    if sample is not None and sample >= len(then):
        raise RunError(f"step {recorded.step} has {len(then)} episodes, so none has the row {sample}; rows begin at 0")
    now = sampled_again(opened.run, opened.own, opened.checkpoint, recorded.step, listener)
    rows = range(max(len(then), len(now))) if sample is None else [sample]
    found = {}
    for row in rows:
        if row >= min(len(then), len(now)):
            found[row] = ["it is missing now" if row < len(then) else "it is not in the record"]
        elif differences := episode_differences(then[row], now[row]):
            found[row] = differences
    return len(rows), found


def _update_differences(
    opened: OpenedRun, recorded: RecordedStep, deriver: Deriver, derived: Derived
) -> tuple[list[str], str | None]:
    """What differs of an update, and what its weights were compared with."""
    found = number_differences(recorded.numbers, derived.numbers)
    for name, (then, now) in metric_differences(recorded.metrics, derived.metrics).items():
        found.append(f"{name} {then:.6g} became {now:.6g}")
    kept = opened.policy_after(recorded.step)
    if kept is None:
        return found, None
    folder, checkpoint = kept
    others = deriver.other_weights(folder, checkpoint)
    if others:
        found.append(f"{len(others)} tensors of {folder}, such as {others[0]}")
    return found, folder.relative_to(opened.run.path).as_posix()
