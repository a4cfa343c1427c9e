"""The order in which a run plays the tasks of several training sets: each set's own order, mixed by weights.

Which set is next depends on nothing but the weights and how many tasks of each set have been played. After any number
of tasks the count of each set is less than one away from its share (the quota method of Balinski and Young 1975), and
so less than two away within any window. A set that has fewer tasks than its share of a step gives all of them to each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any

from agent_r1_core.assembly.task_order import TaskOrder


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
        """What a checkpoint keeps; JSON-able."""
        return {"sets": {name: order.state() for name, order in self.orders.items()}}

    def at(self, state: Mapping[str, Any]) -> MixedOrder:
        """The place that `state` told, if it is one in a mixture of these sets."""
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
