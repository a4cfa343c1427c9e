"""Which tasks a step trains on: a pure function of the seed and the step, so that a resumed run skips none (LAW 10)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def tasks_of_step(tasks: Sequence[T], step: int, per_step: int, seed: int, shuffle: bool) -> list[T]:
    """The tasks of `step` (counted from 1): consecutive places in an endless row of reshuffled epochs."""
    first = (step - 1) * per_step
    return [_at(tasks, place, seed, shuffle) for place in range(first, first + per_step)]


def _at(tasks: Sequence[T], place: int, seed: int, shuffle: bool) -> T:
    epoch, index = divmod(place, len(tasks))
    if not shuffle:
        return tasks[index]
    return tasks[_permutation(len(tasks), seed, epoch)[index]]


_cache: dict[tuple[int, int, int], list[int]] = {}


def _permutation(size: int, seed: int, epoch: int) -> list[int]:
    """The epoch's order; the last one is kept, since neighbouring places ask for the same."""
    key = (size, seed, epoch)
    if key not in _cache:
        _cache.clear()
        order = list(range(size))
        random.Random(f"{seed}/{epoch}").shuffle(order)
        _cache[key] = order
    return _cache[key]


def hold_out(tasks: Sequence[T], size: int, seed: int) -> tuple[list[T], list[T]]:
    """Split tasks into (train, eval): `size` of them at most, and a tenth at most, are held out, chosen by the seed."""
    count = max(1, min(size, len(tasks) // 10)) if len(tasks) > 1 else 0
    held = set(random.Random(f"{seed}/held-out").sample(range(len(tasks)), count))
    train = [task for index, task in enumerate(tasks) if index not in held]
    return train, [tasks[index] for index in sorted(held)]
