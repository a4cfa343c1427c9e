"""Plays a policy's episodes on tasks and reports its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import TaskError
from agent_r1_core.evaluation.episode_record import EpisodeRecord, episode_records
from agent_r1_core.evaluation.report import EvaluationResult, report
from agent_r1_core.rollout import Measurer, RolloutRequest

if TYPE_CHECKING:
    from agent_r1_core.rollout import Collect
    from agent_r1_core.trajectory import Task, Trajectory

ROUND = -1
"""The rollout round of every evaluation. All evaluations of a run draw the same seeds, so that only the policy differs;
training rounds (from 0) draw others (LAW 11)."""


@dataclass(frozen=True)
class Evaluation:
    """A result with the episodes behind it."""

    result: EvaluationResult
    sets: Mapping[str, list[Trajectory]]
    """All episodes by the name of their set, which is empty if there is one without a name; the failed ones come
    last."""
    episodes: list[EpisodeRecord]
    """What the result was computed from: a record of each episode."""

    @property
    def trajectories(self) -> list[Trajectory]:
        return [trajectory for episodes in self.sets.values() for trajectory in episodes]


async def evaluate_tasks(
    collect: Collect,
    tasks: Sequence[Task],
    *,
    split: str = "eval",
    samples: int = 1,
    greedy: bool = True,
    sampling: Mapping[str, Any] | None = None,
    tools: Mapping[str, dict[str, Any]] | None = None,
    conditions: Sequence[str] = (),
    provenance: Mapping[str, str] | None = None,
    asked: Sequence[Task] = (),
    set_name: str = "",
    scores: Measurer | None = None,
    on_episode: Callable[[Trajectory], None] | None = None,
) -> Evaluation:
    """Play episodes and score them; where the policy plays against itself, the scores are player 0's.

    Args:
        collect: Plays a rollout request: the method of a collector or of a run's rollouts.
        split: The split whose tools and corpus the episodes use.
        samples: Episodes per task; with several, `pass@<samples>` is reported.
        greedy: Take the most likely token instead of sampling.
        sampling: Settings to state in the report: temperature, top_p, top_k, max_new_tokens, max_turns, seed, ...
        tools: How the tools describe themselves, to state in the report.
        conditions: What else a reader of the report must know; sentences about scores that episodes lack follow.
        provenance: What the scores rest on, to state in the report: corpus, checkpoint, held_out.
        asked: The tasks as their source gave them, if `tasks` ask them in other words; the records keep these.
        set_name: The name of the set, for the records; empty if it has none.
        scores: What to measure besides the scores that every evaluation has; failed episodes are not measured.
        on_episode: Called as each episode ends, failed ones included.

    Raises:
        TaskError: there are no tasks, or none of their episodes finished.
    """
    if not tasks:
        raise TaskError("there are no tasks to evaluate on; set tasks.eval to a source that has some")
    rollout = await collect(RolloutRequest(tasks, samples, ROUND, greedy, split), on_episode)
    stated = {"greedy": greedy, "samples": samples} | dict(sampling or {}) | ({"temperature": 0.0} if greedy else {})
    scores = scores or Measurer()
    groups = [group for group in rollout.groups if group.player == 0]
    played = rollout.episodes + rollout.dropped
    measured, faults = await scores.measure(played)
    by_id = {task.id: task for task in asked}
    episodes = episode_records(groups, rollout.dropped, by_id, set_name, measured)
    try:
        result = report(
            episodes,
            sampling=stated,
            samples=samples,
            tools=tools,
            conditions=(*conditions, *faults),
            provenance=provenance,
            declared=scores.declared,
        )
    except ValueError as error:
        raise TaskError(str(error)) from error
    return Evaluation(result, {set_name: played}, episodes)
