"""The main scores by source, hops and question type, where the tasks' metadata say them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.intervals import Estimate
from agent_r1_core.evaluation.scores import MAIN, estimates, scores_of

Breakdowns = dict[str, dict[str, dict[str, Estimate]]]
"""Scores by `source`, `hops` or `kind`, then by its value: `["hops"]["2"]["exact_match"]`."""
KEYS = ("source", "hops", "kind")
UNKNOWN = "unknown"
"""The value of tasks that do not say theirs, where others do."""


def breakdowns(tasks: Sequence[Sequence[EpisodeRecord]], lost: Sequence[Sequence[EpisodeRecord]] = ()) -> Breakdowns:
    """The main scores of each part of the tasks; a key that no task has is left out.

    Args:
        lost: the tasks that have none but failed episodes.
    """
    scores = scores_of([episode for task in tasks for episode in task])
    main = {name: score for name, score in scores.items() if name in MAIN}
    found: Breakdowns = {}
    for key in KEYS:
        if any(getattr(task[0], key) is not None for task in tasks):
            without = _parts(lost, key)
            found[key] = {
                value: estimates(part, main, lost=without.get(value, ())) for value, part in _parts(tasks, key).items()
            }
    return found


def _parts(tasks: Sequence[Sequence[EpisodeRecord]], key: str) -> dict[str, list[Sequence[EpisodeRecord]]]:
    values: list[Any] = [getattr(task[0], key) for task in tasks]
    parts: dict[str, list[Sequence[EpisodeRecord]]] = {}
    for value, task in sorted(zip(values, tasks, strict=True), key=lambda pair: (pair[0] is None, pair[0] or 0)):
        parts.setdefault(UNKNOWN if value is None else str(value), []).append(task)
    return parts
