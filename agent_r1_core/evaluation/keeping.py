"""Keeps successful episodes as conversations, each of which was played again and was the same (LAW 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_r1_core.contracts.success import distinct_successes, succeeded
from agent_r1_core.rollout import RolloutRequest
from agent_r1_core.rollout.demonstration import (
    BadDemonstration,
    check_single,
    conversation_of,
    difference,
    line_of,
    task_of,
)

if TYPE_CHECKING:
    from agent_r1_core.assembly.roles import Rollouts
    from agent_r1_core.contracts.tool_format import ToolFormat
    from agent_r1_core.trajectory import Group, Trajectory


@dataclass
class Kept:
    """What is kept of a rollout."""

    lines: list[str] = field(default_factory=list)
    """A conversation each."""
    successes: int = 0
    left_out: list[str] = field(default_factory=list)
    """Why, of each success that is not the same when its conversation is played."""


async def keep_successes(
    rollouts: Rollouts,
    groups: Sequence[Group],
    tool_format: ToolFormat | None,
    split: str,
    per_task: int,
    success_at: float | None,
    owns_context: bool = False,
) -> Kept:
    """The first `per_task` different successes of each group.

    Args:
        rollouts: what played the groups, still open; no engine is asked.
        split: the task set that was played.
        success_at: the least return of a success; None: as `succeeded` says.
        owns_context: `ToolEnv.owns_context` of the environment.
    """
    written: list[list[tuple[Trajectory, str]]] = []
    kept, names = Kept(), Counter[str]()
    for group in groups:
        kept.successes += sum(succeeded(one, success_at) for one in group.trajectories)
        written.append([])
        for one in distinct_successes(group.trajectories, success_at):
            try:
                if owns_context:
                    check_single(one)
                line = line_of(conversation_of(one, tool_format, f"{group.task.id}.{names[group.task.id]}"))
            except BadDemonstration as error:
                kept.left_out.append(str(error))
            else:
                names[group.task.id] += 1
                written[-1].append((one, line))
    tasks = [task_of(line) for lines in written for _, line in lines]
    if not tasks:
        return kept
    result = await rollouts.collect(RolloutRequest(tasks, 1, "keep", split=split, demonstrations="file"))
    again = {one.task.id: one for one in [*result.trajectories, *result.dropped]}
    for lines in written:
        compared = [(line, difference(one, again[task_of(line).id])) for one, line in lines]
        kept.lines += [line for line, why in compared if why is None][:per_task]
        kept.left_out += [why for _, why in compared if why is not None]
    return kept
