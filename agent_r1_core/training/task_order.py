"""Chooses the tasks of a step, from the seed and the step alone, so that a resumed run skips none (LAW 10)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from agent_r1_core.trajectory import Task

T = TypeVar("T")


def tasks_of_step(tasks: Sequence[T], step: int, per_step: int, seed: int, shuffle: bool) -> list[T]:
    """The tasks of `step` (counted from 1): `per_step` of them, or all if there are fewer; no task twice.

    A step in which an epoch ends continues with the first tasks of the next epoch. Every task comes once per epoch, and
    each epoch has its own order.
    """
    size = min(per_step, len(tasks))
    places: list[int] = []
    while len(places) < size:
        epoch, start = divmod((step - 1) * size + len(places), len(tasks))
        order = _epoch_order(len(tasks), size, seed, epoch) if shuffle else range(len(tasks))
        places += order[start : start + size - len(places)]
    return [tasks[place] for place in places]


def further_tasks(tasks: Sequence[Task], used: Iterable[Task], count: int, seed: int, round: str) -> list[Task]:
    """At most `count` tasks that the step has not used, for its extra rollout `round`."""
    used_ids = {task.id for task in used}
    unused = [task for task in tasks if task.id not in used_ids]
    return random.Random(f"{seed}/{round}").sample(unused, min(count, len(unused)))


@lru_cache(maxsize=2)
def _epoch_order(count: int, per_step: int, seed: int, epoch: int) -> list[int]:
    """The order of an epoch: shuffled, except that a step shared with the previous epoch repeats none of its tasks.

    It depends on earlier epochs only back to the last one that started with a step, at most `per_step` epochs.
    """
    first = epoch
    while first * count % per_step:
        first -= 1
    order: list[int] = []
    for number in range(first, epoch + 1):
        begun = number * count % per_step
        used = set(order[count - begun :])
        shuffled = list(range(count))
        random.Random(f"{seed}/{number}").shuffle(shuffled)
        rest_of_step = [place for place in shuffled if place not in used][: per_step - begun] if begun else []
        taken = set(rest_of_step)
        order = rest_of_step + [place for place in shuffled if place not in taken]
    return order


def hold_out(tasks: Sequence[T], size: int, seed: int) -> tuple[list[T], list[T]]:
    """Split tasks into (train, eval): the seed chooses at most `size` tasks, and at most a tenth, to hold out."""
    count = max(1, min(size, len(tasks) // 10)) if len(tasks) > 1 else 0
    held = set(random.Random(f"{seed}/held-out").sample(range(len(tasks)), count))
    train = [task for index, task in enumerate(tasks) if index not in held]
    return train, [tasks[index] for index in sorted(held)]
