"""Success: which episodes count as solved, and which of them are worth learning from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agent_r1_core.trajectory import EndStatus, Trajectory, differ

RETURN_OF_SUCCESS = 1.0
"""The least return of a success where the environment does not say what one is."""
PER_TASK = 4
"""Most successes of a task that are learnt from or kept, where no option says otherwise."""


def succeeded(trajectory: Trajectory, success_at: float | None = None) -> bool:
    """Whether an episode is a success; a failed one never is.

    Args:
        success_at: the least return of a success. None: the environment's own word, where it gives one, else a return
            of at least 1.
    """
    if trajectory.status is EndStatus.FAILED:
        return False
    if success_at is None:
        if trajectory.success is not None:
            return trajectory.success
        success_at = RETURN_OF_SUCCESS
    reached = trajectory.total_reward
    return reached >= success_at or not differ(reached, success_at)


def judged(successes: Sequence[bool | None], cut: Sequence[bool]) -> list[bool | None]:
    """What the environment said of the episodes of one rollout. Where it judges some of them, one that a budget `cut`
    before it was judged is no success; None: it was not judged."""
    if all(success is None for success in successes):
        return list(successes)
    return [False if success is None and short else success for success, short in zip(successes, cut, strict=True)]


def distinct_successes(
    trajectories: Iterable[Trajectory], success_at: float | None = None, most: int | None = None
) -> Iterator[Trajectory]:
    """The first `most` successes that differ in their action tokens, in order; of equal ones the first. None: all."""
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for trajectory in trajectories:
        if most is not None and len(seen) >= most:
            return
        if succeeded(trajectory, success_at):
            segments = trajectory.segments
            actions = tuple(tuple(segments[turn.segment].ids[turn.start : turn.stop]) for turn in trajectory.turns)
            if actions not in seen:
                seen.add(actions)
                yield trajectory
