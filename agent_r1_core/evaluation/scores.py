"""The scores of an evaluation: what each takes from an episode, and its mean over tasks with an interval."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.intervals import Estimate, estimate, pass_at_k
from agent_r1_core.evaluation.scorers import exact_match_score, f1_score, substring_match_score
from agent_r1_core.metrics import declared as metric
from agent_r1_core.trajectory import EndStatus

MAIN: tuple[str, ...] = (
    *(metric.EXACT_MATCH, metric.F1, metric.SUBSTRING_MATCH, metric.RETRIEVAL_RECALL, metric.RETRIEVAL_ALL),
    *(metric.SUCCESS, metric.REWARD_MEAN),
)
"""The scores that are broken down by source, hops and question type."""
_FINISHED = (EndStatus.TERMINATED, EndStatus.TRUNCATED)


@dataclass(frozen=True)
class Score:
    """One score of an episode."""

    of: Callable[[EpisodeRecord], float | None]
    """None if the episode has no such score."""
    share: bool | None
    """Whether it can only be 0 or 1; None: decided by its values."""
    bounded: bool = False
    """Whether it lies between 0 and 1, without being a share."""


def finished_tasks(episodes: Sequence[EpisodeRecord]) -> list[list[EpisodeRecord]]:
    """The episodes of each task that did not fail; tasks without any are left out."""
    tasks: dict[str, list[EpisodeRecord]] = {}
    for episode in episodes:
        if not episode.failed:
            tasks.setdefault(episode.task, []).append(episode)
    return list(tasks.values())


def scores_of(episodes: Sequence[EpisodeRecord]) -> dict[str, Score]:
    """Every score that these episodes may have, by its declared name."""
    outcome = sorted({name for episode in episodes for name in episode.rewards})
    process = sorted({name for episode in episodes for name in episode.process_rewards})
    scores: dict[str, Score] = {
        metric.EXACT_MATCH: Score(_answered_with(exact_match_score), True),
        metric.F1: Score(_answered_with(f1_score), False, bounded=True),
        metric.SUBSTRING_MATCH: Score(_answered_with(substring_match_score), True),
        metric.RETRIEVAL_RECALL: Score(_retrieval_recall, False, bounded=True),
        metric.RETRIEVAL_ALL: Score(_retrieval_all, True),
        metric.SUCCESS: Score(lambda e: None if e.success is None else float(e.success), True),
        metric.REWARD_MEAN: Score(lambda e: e.total, False),
    }
    scores |= {metric.REWARD.of(name): Score(_process_reward(name), False) for name in process}
    scores |= {metric.REWARD.of(name): Score(_outcome_reward(name), None) for name in outcome}
    scores |= {metric.STATUS.of(status.value): Score(_ended(status), True) for status in _FINISHED}
    return scores | {
        metric.ANSWERED: Score(lambda e: float(e.prediction is not None), True),
        metric.TURNS: Score(lambda e: float(e.turns), False),
        metric.TOOL_CALLS_OF_EPISODE: Score(lambda e: float(e.tool_calls), False),
        metric.TOOL_ERRORS_OF_EPISODE: Score(_tool_errors, False),
        metric.TOKENS: Score(lambda e: float(e.tokens), False),
        metric.ACTION_TOKENS: Score(lambda e: float(e.action_tokens), False),
    }


def values_of(score: Score, tasks: Sequence[Sequence[EpisodeRecord]]) -> dict[str, list[float]]:
    """The values of each task's samples, by task id; tasks without the score are left out."""
    values = {task[0].task: [value for one in task if (value := score.of(one)) is not None] for task in tasks}
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
            among = lost if len(values) == len(tasks) else [task for task in lost if score.of(task[0]) is not None]
            asked = len(values) + len(among)
            metrics[name] = estimate(values, is_share(score, values)).out_of(asked)
            if name == metric.EXACT_MATCH and samples > 1:
                metrics |= {at: one.out_of(asked) for at, one in _pass_at(values, samples).items()}
    return metrics


def is_share(score: Score, values: Collection[Sequence[float]]) -> bool:
    """Whether the score can only be 0 or 1."""
    if score.share is not None:
        return score.share
    return all(value in (0.0, 1.0) for task in values for value in task)


def _answered_with(scorer: Callable[[str | None, Sequence[str]], float]) -> Callable[[EpisodeRecord], float | None]:
    return lambda episode: scorer(episode.prediction, episode.answers) if episode.answers else None


def _retrieval_recall(episode: EpisodeRecord) -> float | None:
    return len(episode.shown) / len(episode.supporting) if episode.supporting else None


def _retrieval_all(episode: EpisodeRecord) -> float | None:
    return float(len(episode.shown) == len(episode.supporting)) if episode.supporting else None


def _outcome_reward(name: str) -> Callable[[EpisodeRecord], float | None]:
    return lambda episode: episode.rewards.get(name)


def _process_reward(name: str) -> Callable[[EpisodeRecord], float]:
    return lambda episode: episode.process_rewards.get(name, 0.0)


def _tool_errors(episode: EpisodeRecord) -> float | None:
    return None if episode.tool_errors is None else float(episode.tool_errors)


def _ended(status: EndStatus) -> Callable[[EpisodeRecord], float]:
    return lambda episode: float(episode.status == status)


def _pass_at(values: Sequence[Sequence[float]], samples: int) -> dict[str, Estimate]:
    """pass@k for k = samples, over the tasks none of whose episodes failed."""
    whole = [task for task in values if len(task) >= samples]
    scores = [[pass_at_k(len(task), round(sum(task)), samples)] for task in whole]
    return {metric.PASS_AT.of(str(samples)): estimate(scores, proportion=True)} if scores else {}
