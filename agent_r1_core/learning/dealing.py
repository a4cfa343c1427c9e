"""Deals a batch to ranks: whole groups, so that prefixes stay shared, the costliest first to whoever has least so far.

A group is not cut: with fewer groups than ranks some ranks have nothing to do, and one large group sets the pace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.packing import Packed, computed_tokens, idle, micro_batches
from agent_r1_core.learning.ranks import Ranks


def passes(batch: Batch, rows: Iterable[int], max_tokens: int, share: bool, ranks: Ranks) -> Iterator[Packed]:
    """This rank's micro-batches of the rows, and idle ones after them until every rank has had as many."""
    if ranks.size == 1:
        yield from micro_batches(batch, rows, max_tokens, share)
        return
    own = list(micro_batches(batch, deal(batch, rows, share, ranks.size)[ranks.rank], max_tokens, share))
    most = ranks.most(len(own))
    yield from own
    for _ in range(most - len(own)):
        yield idle(batch)


def deal(batch: Batch, rows: Iterable[int], share: bool, size: int) -> list[list[int]]:
    """The rows of each of `size` ranks, by computed tokens."""
    groups: dict[int, list[int]] = {}
    for row in rows:
        groups.setdefault(int(batch.group[row]), []).append(row)
    costs = {group: computed_tokens(batch, members, share) for group, members in groups.items()}
    hands: list[list[int]] = [[] for _ in range(size)]
    loads = [0] * size
    for group in sorted(groups, key=lambda group: (-costs[group], group)):
        least = loads.index(min(loads))
        hands[least] += groups[group]
        loads[least] += costs[group]
    return hands
