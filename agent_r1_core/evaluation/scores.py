"""The mean of each score over tasks, with its interval."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.intervals import Estimate, estimate, pass_at_k
from agent_r1_core.metrics.scorers import EXACT_MATCH, PASS_AT, Score


def finished_tasks(episodes: Sequence[EpisodeRecord]) -> list[list[EpisodeRecord]]:
    """The episodes of each task that did not fail; tasks without any are left out."""
    tasks: dict[str, list[EpisodeRecord]] = {}
    for episode in episodes:
        if not episode.failed:
            tasks.setdefault(episode.task, []).append(episode)
    return list(tasks.values())


def values_of(score: Score, tasks: Sequence[Sequence[EpisodeRecord]]) -> dict[str, list[float]]:
    """The values of each task's samples, by task id; tasks without the score are left out."""
    values = {task[0].task: [value for one in task if (value := score.measure(one)) is not None] for task in tasks}
    return {task: samples for task, samples in values.items() if samples}


def lost_tasks(episodes: Sequence[EpisodeRecord]) -> list[list[EpisodeRecord]]:
    """The episodes of each task that has none but failed ones."""
    finished, lost = {one.task for one in episodes if not one.failed}, dict[str, list[EpisodeRecord]]()
    for episode in episodes:
        if episode.task not in finished:
            lost.setdefault(episode.task, []).append(episode)
    return list(lost.values())


def estimates(
    tasks: Sequence[Sequence[EpisodeRecord]],
    scores: Mapping[str, Score],
    samples: int = 1,
    lost: Sequence[Sequence[EpisodeRecord]] = (),
) -> dict[str, Estimate]:
    """The mean of each score that a task has; with several samples also pass@k of exact match.

    Args:
        lost: the tasks that have none but failed episodes; they are in no mean, and each mean says so.
    """
    metrics: dict[str, Estimate] = {}
    for name, score in scores.items():
        values = list(values_of(score, tasks).values())
        if values:
            # Where some finished tasks lack the score, such as answers, a lost one may lack it too.
            among = lost if len(values) == len(tasks) else [task for task in lost if score.measure(task[0]) is not None]
            asked = len(values) + len(among)
            metrics[name] = estimate(values, is_share(score, values)).out_of(asked)
            if name == EXACT_MATCH and samples > 1:
                metrics |= {at: one.out_of(asked) for at, one in _pass_at(values, samples).items()}
    return metrics


def is_share(score: Score, values: Collection[Sequence[float]]) -> bool:
    """Whether the score can only be 0 or 1."""
    if score.bounds != "seen":
        return score.bounds == "0 or 1"
    return all(value in (0.0, 1.0) for task in values for value in task)


def _pass_at(values: Sequence[Sequence[float]], samples: int) -> dict[str, Estimate]:
    """pass@k for k = samples, over the tasks none of whose episodes failed."""
    whole = [task for task in values if len(task) >= samples]
    scores = [[pass_at_k(len(task), round(sum(task)), samples)] for task in whole]
    return {PASS_AT.of(str(samples)): estimate(scores, proportion=True)} if scores else {}
