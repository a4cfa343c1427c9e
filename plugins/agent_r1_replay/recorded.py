"""RecordedStep: a step of a run with all that it takes to repeat it: episodes, their numbers, metrics, checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import RunError
from agent_r1_core.trajectory import Group, Trajectory

if TYPE_CHECKING:
    from agent_r1_core.runs.checkpoint import Checkpoint
    from agent_r1_core.runs.run_reader import RunReader

Numbers = dict[str, list[float] | None]
"""What an update knew of the tokens of a trajectory, by the names of `TokenNumbers`."""


@dataclass(frozen=True)
class RecordedStep:
    """What a run recorded of a step."""

    step: int
    trajectories: list[Trajectory]
    """In the rows of the step's file: group by group, then the greedy baselines."""
    numbers: list[Numbers]
    """One for each trajectory."""
    metrics: dict[str, Any]

    @classmethod
    def of(cls, run: RunReader, step: int) -> RecordedStep:
        """Read a step.

        Raises:
            RunError: it is not recorded, or its files are damaged.
        """
        metrics = {line["step"]: line for line in run.metrics()}
        if step not in metrics:
            raise RunError(f"run {run.path} has no metrics of step {step}; name a step that it has recorded")
        return cls(step, run.read_trajectories(step), run.read_token_numbers(step, dropped=False), metrics[step])


def groups_of(trajectories: Sequence[Trajectory]) -> list[Group]:
    """The groups of a step, which has each task once: its trajectories by task and player, with the greedy baseline."""
    groups: dict[tuple[str, int], Group] = {}
    for one in trajectories:
        group = groups.setdefault((one.task.id, one.player), Group(one.task, player=one.player))
        if one.baseline:
            group.baseline = one
        else:
            group.trajectories.append(one)
    return list(groups.values())


def checkpoint_before(run: RunReader, step: int) -> Checkpoint | None:
    """The checkpoint whose policy sampled a step; None for the first step, which the run's first model sampled.

    Raises:
        RunError: the run has not kept it, or it is damaged.
    """
    if step == 1:
        return None
    kept = {checkpoint.step: checkpoint for checkpoint in run.checkpoints.all()}
    if step - 1 in kept:
        damage = kept[step - 1].damage()
        if damage is None:
            return kept[step - 1]
        raise RunError(f"{kept[step - 1].path}, whose policy sampled step {step}, is damaged: {damage}")
    after = [str(one + 1) for one in (0, *kept) if run.trajectory_file(one + 1).is_file()]
    raise RunError(
        f"run {run.path} keeps no checkpoint of step {step - 1}, whose policy sampled step {step} (checkpoint.every="
        f"{run.setting('checkpoint.every')}, checkpoint.keep={run.setting('checkpoint.keep')}); steps that it can "
        f"repeat: {', '.join(after) or 'none'}"
    )
