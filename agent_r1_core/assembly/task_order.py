"""The order in which a run plays its tasks, and the place in it, which a checkpoint keeps (LAW 10).

Every task of a set comes once before any comes again, and each epoch has its own order, given by the seed. Several sets
are mixed by their weights.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Order(Protocol):
    """A place in an order of tasks, which are counted from 0; TaskOrder is that of one set, MixedOrder of several."""

    def draw(self, count: int, used: Collection[int] = ()) -> tuple[list[int], Order]:
        """The next tasks and the place behind them.

        Args:
            count: how many; fewer come where all others are used.
            used: what the step has already; no task comes twice in a step.
        """

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps; JSON-able."""

    def at(self, state: Mapping[str, Any]) -> Order:
        """The place that `state` describes.

        Raises:
            KeyError, TypeError, ValueError: it is no place in this order.
        """


@dataclass(frozen=True)
class TaskOrder:
    """A place in the order of `tasks` tasks."""

    tasks: int
    seed: int | str
    shuffle: bool
    epoch: int = 0
    drawn: int = 0
    """How far the epoch's order has been read."""
    waiting: tuple[int, ...] = ()
    """Tasks that were read when their step had them already, from the epoch before: the next in line."""

    @property
    def played(self) -> int:
        """How many tasks are before this place."""
        return self.epoch * self.tasks + self.drawn - len(self.waiting)

    def draw(self, count: int, used: Collection[int] = ()) -> tuple[list[int], TaskOrder]:
        """The next tasks and the place behind them, as `Order` says."""
        had, found, waiting = set(used), list[int](), list(self.waiting)
        epoch, drawn, order = self.epoch, self.drawn, self._order(self.epoch)
        while len(found) < count and len(had) < self.tasks:
            task = next((one for one in waiting if one not in had), None)
            if task is not None:
                waiting.remove(task)
            elif drawn == self.tasks:
                epoch, drawn, order = epoch + 1, 0, self._order(epoch + 1)
                continue
            else:
                task, drawn = order[drawn], drawn + 1
                if task in had:
                    waiting.append(task)
                    continue
            had.add(task)
            found.append(task)
        return found, replace(self, epoch=epoch, drawn=drawn, waiting=tuple(waiting))

    def state(self) -> dict[str, Any]:
        return {"tasks": self.tasks, "epoch": self.epoch, "drawn": self.drawn, "waiting": list(self.waiting)}

    def at(self, state: Mapping[str, Any]) -> TaskOrder:
        """The place that `state` describes, if it is one in the order of this many tasks."""
        tasks, epoch, drawn, waiting = (state[key] for key in ("tasks", "epoch", "drawn", "waiting"))
        if not all(type(number) is int for number in (tasks, epoch, drawn, *waiting)):
            raise TypeError("a value is no whole number")
        if tasks != self.tasks:
            raise ValueError(f"it counts {tasks} training tasks, and there are {self.tasks}")
        if epoch < 0 or not 0 <= drawn <= tasks or any(not 0 <= task < tasks for task in waiting):
            raise ValueError("it is outside the order")
        return replace(self, epoch=epoch, drawn=drawn, waiting=tuple(waiting))

    def _order(self, epoch: int) -> Sequence[int]:
        return _shuffled(self.tasks, self.seed, epoch) if self.shuffle else range(self.tasks)


@lru_cache(maxsize=32)  # of each training set the epoch, and the one before or behind it
def _shuffled(tasks: int, seed: int | str, epoch: int) -> list[int]:
    order = list(range(tasks))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order


@dataclass(frozen=True)
class MixedOrder:
    """A place in a mixture; its tasks are counted through the sets, in the order of the names here."""

    orders: Mapping[str, TaskOrder]
    """The place in each set."""
    weights: Mapping[str, float]

    def draw(self, count: int, used: Collection[int] = ()) -> tuple[list[int], MixedOrder]:
        """The next tasks and the place behind them, as `Order` says."""
        orders, found, first, share = dict(self.orders), list[int](), self._first(), shares(self.weights)
        had = {
            name: {task - first[name] for task in used if 0 <= task - first[name] < order.tasks}
            for name, order in orders.items()
        }
        left = set(orders)
        while len(found) < count and left:
            name = _next({name: orders[name].played for name in orders}, share, left)
            drawn, orders[name] = orders[name].draw(1, had[name])
            if not drawn:
                left.remove(name)
            for task in drawn:
                had[name].add(task)
                found.append(first[name] + task)
        return found, replace(self, orders=orders)

    def counts(self, tasks: Collection[int]) -> dict[str, int]:
        """How many of these tasks are each set's."""
        first = self._first()
        ranges = {name: range(first[name], first[name] + order.tasks) for name, order in self.orders.items()}
        return {name: sum(task in own for task in tasks) for name, own in ranges.items()}

    def state(self) -> dict[str, Any]:
        return {"sets": {name: order.state() for name, order in self.orders.items()}}

    def at(self, state: Mapping[str, Any]) -> MixedOrder:
        """The place that `state` describes, if it is one in a mixture of these sets."""
        sets = state["sets"]
        if not isinstance(sets, dict):
            raise TypeError("it tells no sets")
        if sets.keys() != self.orders.keys():
            raise ValueError(f"it is of the sets {', '.join(sets)}, and there are {', '.join(self.orders)}")
        return replace(self, orders={name: order.at(sets[name]) for name, order in self.orders.items()})

    def _first(self) -> dict[str, int]:
        """The number of each set's first task."""
        starts = accumulate((order.tasks for order in self.orders.values()), initial=0)
        return dict(zip(self.orders, starts, strict=False))


def shares(weights: Mapping[str, float]) -> dict[str, Fraction]:
    """Each set's share of the tasks, exact for weights as they are written."""
    exact = {name: Fraction(str(weight)) for name, weight in weights.items()}
    return {name: weight / sum(exact.values()) for name, weight in exact.items()}


def _next(played: Mapping[str, int], share: Mapping[str, Fraction], left: Collection[str]) -> str:
    """The set whose next task is due first, among those whose count stays below their share and one."""
    total = 1 + sum(played.values())
    names = [name for name in played if name in left]
    below = [name for name in names if played[name] < share[name] * total]
    return min(below or names, key=lambda name: (played[name] + 1) / share[name])


def hold_out(tasks: Sequence[T], size: int, seed: int | str) -> list[T]:
    """The tasks to hold out of training, which the seed chooses: at most `size`, and at most a tenth."""
    count = max(1, min(size, len(tasks) // 10)) if len(tasks) > 1 else 0
    return [tasks[index] for index in sorted(random.Random(f"{seed}/held-out").sample(range(len(tasks)), count))]
