"""Which tasks a step trains on: a pure function of the seed and the step, so that a resumed run skips none (LAW 10)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def tasks_of_step(tasks: Sequence[T], step: int, per_step: int, seed: int, shuffle: bool) -> list[T]:
    """The tasks of `step` (counted from 1), all different.

    An epoch is cut into the fewest steps of at most `per_step` tasks, as equal as can be, so that every task comes
    once an epoch and no step holds one twice; each epoch has an order of its own.
    """
    chunks = -(-len(tasks) // per_step)
    epoch, index = divmod(step - 1, chunks)
    order = _order(len(tasks), seed, epoch) if shuffle else list(range(len(tasks)))
    return [tasks[place] for place in order[len(tasks) * index // chunks : len(tasks) * (index + 1) // chunks]]


def _order(size: int, seed: int, epoch: int) -> list[int]:
    order = list(range(size))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order


def hold_out(tasks: Sequence[T], size: int, seed: int) -> tuple[list[T], list[T]]:
    """Split tasks into (train, eval): `size` of them at most, and a tenth at most, are held out, chosen by the seed."""
    count = max(1, min(size, len(tasks) // 10)) if len(tasks) > 1 else 0
    held = set(random.Random(f"{seed}/held-out").sample(range(len(tasks)), count))
    train = [task for index, task in enumerate(tasks) if index not in held]
    return train, [tasks[index] for index in sorted(held)]
