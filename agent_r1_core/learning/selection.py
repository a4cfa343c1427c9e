"""Selection: what is asked of an algorithm before an update: which groups to learn from, and whether to play more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from agent_r1_core.contracts.algorithm import Algorithm, AlgorithmConfig
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.errors import AlgorithmError
from agent_r1_core.learning.checks import author_errors, name_of
from agent_r1_core.trajectory import Group


class Selection:
    """Asks an algorithm and the options of every algorithm, and checks the answers; it needs no networks."""

    def __init__(self, algorithm: Algorithm, settings: TrainingConfig) -> None:
        self.algorithm = algorithm
        self._settings = settings

    def filter(self, groups: Sequence[Group]) -> list[Group]:
        """The groups to learn from: of those that the option `filter` keeps, those that the algorithm wants, some of
        them perhaps with some of their trajectories.

        Raises:
            AlgorithmError: its filter raised, or returned other groups or trajectories than it was given.
        """
        groups = kept_groups(groups, self.algorithm.config)
        with author_errors(self.algorithm, "filter"):
            kept = self.algorithm.filter(groups)
        if not isinstance(kept, list | tuple) or not _are_of(kept, groups):
            raise AlgorithmError(
                f"{name_of(self.algorithm)}: filter must return a list of groups that it was given, each once, whole "
                "or as dataclasses.replace(group, trajectories=some of its own)"
            )
        return list(kept)

    def filter_metrics(self, groups: Sequence[Group], kept: Sequence[Group]) -> dict[str, float]:
        """What the algorithm logs of the groups that were played, and of those that are kept.

        Raises:
            AlgorithmError: it raised, or returned anything but numbers by name.
        """
        with author_errors(self.algorithm, "filter_metrics"):
            metrics = self.algorithm.filter_metrics(groups, kept)
        if not isinstance(metrics, dict) or not all(isinstance(value, float | int) for value in metrics.values()):
            raise AlgorithmError(f"{name_of(self.algorithm)}: filter_metrics must return a dict of floats by name")
        return {f"update/{name}": float(value) for name, value in metrics.items()}

    def more_tasks(self, groups: Sequence[Group], tasks: int) -> int:
        """How many further tasks to play, given the groups kept of so many tasks: with `filter: resample` as many as
        groups are missing, or more if the algorithm asks for them.

        Raises:
            AlgorithmError: it raised, or returned anything but a whole number from 0 on.
        """
        with author_errors(self.algorithm, "more_tasks"):
            count = self.algorithm.more_tasks(groups, tasks)
        if not isinstance(count, int) or count < 0:
            raise AlgorithmError(
                f"{name_of(self.algorithm)}: more_tasks returned {count!r}; return how many tasks, 0 for none"
            )
        missing = self._settings.tasks_per_step - len(groups) if self.algorithm.config.filter == "resample" else 0
        return max(missing, count)


def _are_of(kept: Sequence[Any], groups: Sequence[Group]) -> bool:
    """Whether what a filter returned are some of the groups, each once, whole or with some of their trajectories."""
    whole: dict[int, set[int | None]] = {id(group): {place} for place, group in enumerate(groups)}
    homes = {id(one): place for place, group in enumerate(groups) for one in group.trajectories}
    found: list[int | None] = []
    for group in kept:
        own = [id(one) for one in getattr(group, "trajectories", ())]
        places = whole.get(id(group)) or {homes.get(one) for one in own}
        if len(places) != 1 or None in places or len(set(own)) < len(own):
            return False
        found += places
    return len(set(found)) == len(found)


def kept_groups(groups: Sequence[Group], config: AlgorithmConfig) -> list[Group]:
    """The groups that the option `filter` keeps, in the order in which they were played."""
    stds, places = [group.std for group in groups], list(range(len(groups)))
    if config.filter in ("zero_spread", "resample"):
        places = with_spread(stds)
    elif config.filter == "top_share":
        places = top_share(stds, config.filter_share)
    elif config.filter == "top_p":
        places = top_p(stds, config.filter_p)
    return [group for place, group in enumerate(groups) if place in places]


def with_spread(stds: Sequence[float]) -> list[int]:
    """Places of the stds above 0 (DAPO, arXiv 2503.14476)."""
    return [place for place, std in enumerate(stds) if std > 0]


def top_share(stds: Sequence[float], share: float) -> list[int]:
    """Places of the largest stds, largest first: a `share` of all, rounded up; the earlier one on a tie, and none of 0
    (StarPO-S, arXiv 2504.20073)."""
    count = math.ceil(share * len(stds) - 1e-9)  # .1 * 30 is 3.0000000000000004
    return _by_size(stds)[:count]


def top_p(stds: Sequence[float], p: float) -> list[int]:
    """Places of the largest stds, largest first, until their sum reaches `p` of the sum of all; none of 0
    (RAGEN-2, arXiv 2604.06268)."""
    wanted, reached = p * math.fsum(stds) * (1 - 1e-12), 0.0
    places = []
    for place in _by_size(stds):
        if reached >= wanted:
            break
        places.append(place)
        reached += stds[place]
    return places


def _by_size(stds: Sequence[float]) -> list[int]:
    return sorted(with_spread(stds), key=lambda place: -stds[place])
