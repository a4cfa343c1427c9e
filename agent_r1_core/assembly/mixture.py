"""Several training sets as one: their tasks, which know their set, their order, and what is held out of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from agent_r1_core.assembly.task_order import Order, TaskOrder, hold_out
from agent_r1_core.errors import TaskError

if TYPE_CHECKING:
    from agent_r1_core.config import RunConfig
    from agent_r1_core.contracts.tasks import Passage, TaskSource
    from agent_r1_core.trajectory import Task


@dataclass(frozen=True)
class TaskSet:
    """Tasks, and their sources, which have their corpora."""

    tasks: Sequence[Task]
    sources: tuple[TaskSource, ...]
    """One, or those of several training sets."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Of several training sets that became one: how many of its tasks are each set's, in the order of the tasks."""
    held_out: tuple[str, ...] | None = None
    """Ids of all tasks that are held out of training; None if the set has its own source."""

    def corpus(self) -> Iterable[Passage] | None:
        """The passages of the sources, one source after the other; None if none of them has any."""
        corpora = [corpus for source in self.sources if (corpus := source.corpus()) is not None]
        return chain.from_iterable(corpora) if corpora else None


def named(tasks: TaskSet, name: str) -> TaskSet:
    """One of several training sets: its tasks have its name in their metadata, under `source`."""
    return replace(tasks, tasks=[replace(task, metadata={**task.metadata, "source": name}) for task in tasks.tasks])


def check_disjoint(parts: Mapping[str, TaskSet]) -> None:
    """Refuse training sets that share an id, by which records and seeds tell tasks apart.

    Raises:
        TaskError: two of them do.
    """
    owners: dict[str, str] = {}
    for name, part in parts.items():
        for task in part.tasks:
            other = owners.setdefault(task.id, name)
            if other != name:
                raise TaskError(
                    f"tasks.train.{other} and tasks.train.{name} both have a task with the id {task.id!r}; choose "
                    "other tasks in one of them, or rename its file if the ids are places in it"
                )


def joined(parts: Mapping[str, TaskSet]) -> TaskSet:
    """The training sets as one."""
    return TaskSet(
        [task for part in parts.values() for task in part.tasks],
        tuple(source for part in parts.values() for source in part.sources),
        {name: len(part.tasks) for name, part in parts.items()},
    )


def hold_out_by_shares(
    parts: Mapping[str, TaskSet], weights: Mapping[str, float], size: int, seed: int
) -> tuple[dict[str, TaskSet], list[Task]]:
    """The sets without the tasks that the seed chooses to hold out, and these, by the sets' shares and mixed by them.

    Args:
        parts: the training sets.
        weights: the weight of each.
        size: how many to hold out of all sets together; of each at least one, if it has two, and at most a tenth.
        seed: the run's.
    """
    order = MixedOrder({name: TaskOrder(size, seed, shuffle=False) for name in parts}, weights)
    share = order.counts(order.draw(size)[0])
    seeds = {name: f"{seed}/{name}" if len(parts) > 1 else seed for name in parts}
    held = {name: hold_out(part.tasks, share[name], seeds[name])[1] for name, part in parts.items()}
    mixed = MixedOrder({name: TaskOrder(len(tasks), seed, shuffle=False) for name, tasks in held.items()}, weights)
    every = [task for tasks in held.values() for task in tasks]
    chosen = [every[index] for index in mixed.draw(len(every))[0]]
    return without(parts, [task.id for task in chosen]), chosen


def without(parts: Mapping[str, TaskSet], ids: Collection[str]) -> dict[str, TaskSet]:
    """The sets without these tasks."""
    gone = frozenset(ids)
    return {
        name: replace(part, tasks=[task for task in part.tasks if task.id not in gone]) for name, part in parts.items()
    }


def training_order(config: RunConfig, train: TaskSet) -> Order:
    """The place before a run's first task."""
    shuffle = config.training.shuffle
    if not isinstance(config.tasks.train, dict):
        return TaskOrder(len(train.tasks), config.seed, shuffle)
    orders = {name: TaskOrder(size, f"{config.seed}/{name}", shuffle) for name, size in train.sizes.items()}
    return MixedOrder(orders, {name: block.weight for name, block in config.tasks.train_sets.items()})


def describe_mixture(config: RunConfig, train: TaskSet) -> list[str]:
    """Sentences about the mixture, and about sets that have fewer tasks than a step takes."""
    per_step, count = config.training.tasks_per_step, len(train.tasks)
    sentences = []
    if isinstance(config.tasks.train, dict) and len(train.sizes) > 1:
        share = shares({name: block.weight for name, block in config.tasks.train_sets.items()})
        parts = [f"{name} ({float(share[name]):.3g} of the tasks played, has {n})" for name, n in train.sizes.items()]
        sentences.append(f"the training tasks are mixed from {', '.join(parts)}")
        sentences += [
            f"training.tasks_per_step is {per_step}, of which {float(share[name] * per_step):.3g} would be of {name}, "
            f"but it has only {n}: every step takes all of them, and more of the others"
            for name, n in train.sizes.items()
            if n < share[name] * per_step and count >= per_step
        ]
    if count < per_step:
        sentences.append(
            f"training.tasks_per_step is {per_step}, but there are only {count} training tasks: every step takes all "
            "of them"
        )
    return sentences


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
