"""Group filters: which groups of a rollout an update learns from, chosen by how much their returns differ.

A group's spread is the standard deviation of its returns (n - 1) over the trajectories that did not fail. Groups that
are filtered out are not in the batch: neither the statistics of advantages nor the normaliser of the loss counts them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from agent_r1_core.contracts.algorithm import AlgorithmConfig
from agent_r1_core.trajectory import Group


def kept_groups(groups: Sequence[Group], config: AlgorithmConfig) -> list[Group]:
    """The groups that the option `filter` keeps, in the order in which they were played."""
    stds = [group.std for group in groups]
    if config.filter in ("zero_spread", "resample"):
        return _at(groups, with_spread(stds))
    if config.filter == "top_share":
        return _at(groups, top_share(stds, config.filter_share))
    if config.filter == "top_p":
        return _at(groups, top_p(stds, config.filter_p))
    return list(groups)


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


def _at(groups: Sequence[Group], places: Collection[int]) -> list[Group]:
    return [group for place, group in enumerate(groups) if place in places]
