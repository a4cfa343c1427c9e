"""Curriculum: an order that draws less of what teaches nothing, groups whose returns are all equal.

A gate lets a task sit out for a while after such a group; a sampler draws more from the parts of the tasks that teach.
Both depend on the groups that were learnt from and on the seed alone, so that any number of workers plays the same
tasks (LAW 11).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_r1_core.assembly.task_order import TaskOrder
from agent_r1_core.contracts.training import CurriculumConfig


@dataclass(frozen=True)
class Part:
    """Tasks that are drawn in an order of their own."""

    tasks: Sequence[int]
    """Their numbers among all tasks."""
    order: TaskOrder
    weight: float
    """Its share if all parts taught equally often, relative to the other parts."""
    spread: float = 1.0
    """How often its groups had a spread lately, from 0 to 1."""


@dataclass(frozen=True)
class Curriculum:
    """A place in the order of tasks, as `Order` says, with what earlier groups told."""

    parts: Mapping[str, Part]
    settings: CurriculumConfig
    seed: int
    draws: int = 0
    """Choices between parts so far."""
    resting: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By task: its last groups without spread, and how often it is still passed over."""
    passed: int = 0
    """Tasks passed over since the last `learn`."""

    def draw(self, count: int, used: Collection[int] = ()) -> tuple[list[int], Curriculum]:
        """The next tasks and the place behind them, as `Order` says."""
        parts, resting, found = dict(self.parts), dict(self.resting), list[int]()
        passed, draws = self.passed, self.draws
        had = {name: {k for k, task in enumerate(part.tasks) if task in used} for name, part in parts.items()}
        left = sorted(parts)
        while len(found) < count and left:
            name = self._choose(left, draws)
            draws += 1
            part = parts[name]
            chosen, order = part.order.draw(1, had[name])
            while chosen and resting.get(part.tasks[chosen[0]], (0, 0))[1]:
                task = part.tasks[chosen[0]]
                resting[task] = resting[task][0], resting[task][1] - 1
                passed += 1
                chosen, order = order.draw(1, had[name])
            parts[name] = replace(part, order=order)
            had[name].update(chosen)
            found += [part.tasks[place] for place in chosen]
            if not chosen:
                left.remove(name)
        return found, replace(self, parts=parts, draws=draws, resting=resting, passed=passed)

    def learn(self, varied: Mapping[int, bool]) -> Curriculum:
        """The same place, knowing of tasks that were played whether their group's returns differed."""
        parts, resting, rate = dict(self.parts), dict(self.resting), self.settings.rate
        for name, part in parts.items():
            spread = part.spread
            for task in sorted(varied.keys() & set(part.tasks)):
                spread += rate * (varied[task] - spread)
            parts[name] = replace(part, spread=spread)
        for task, varies in varied.items():
            times = 0 if varies else min(resting.get(task, (0, 0))[0] + 1, _MOST_TIMES)
            resting.pop(task, None)
            if times and self.settings.rest:
                resting[task] = times, min(2 ** (times - 1), self.settings.rest)
        return replace(self, parts=parts, resting=resting, passed=0)

    def shares(self) -> dict[str, float]:
        """What each part gets of the next tasks; they add up to 1."""
        shares = self._shares(list(self.parts))
        return {name: share / sum(shares) for name, share in zip(self.parts, shares, strict=True)}

    def resting_share(self) -> float:
        """The share of all tasks that will be passed over."""
        return sum(left > 0 for _, left in self.resting.values()) / sum(len(one.tasks) for one in self.parts.values())

    def state(self) -> dict[str, Any]:
        return {
            "parts": {name: {"order": part.order.state(), "spread": part.spread} for name, part in self.parts.items()},
            "draws": self.draws,
            "resting": [[task, *numbers] for task, numbers in sorted(self.resting.items())],
        }

    def at(self, state: Mapping[str, Any]) -> Curriculum:
        """The place that `state` describes, if it is one in a curriculum of these parts."""
        told, draws = state["parts"], state["draws"]
        if told.keys() != self.parts.keys():
            raise ValueError(f"it is of the parts {', '.join(told)}, and there are {', '.join(self.parts)}")
        parts = {
            name: replace(part, order=part.order.at(told[name]["order"]), spread=told[name]["spread"])
            for name, part in self.parts.items()
        }
        resting = {task: (times, left) for task, times, left in state["resting"]}
        if not all(isinstance(part.spread, float) and 0 <= part.spread <= 1 for part in parts.values()):
            raise ValueError("a spread is no number from 0 to 1")
        if not all(type(number) is int and number >= 0 for row in state["resting"] for number in (*row, draws)):
            raise TypeError("a value is no whole number")
        return replace(self, parts=parts, draws=draws, resting=resting, passed=0)

    def _choose(self, names: Sequence[str], draws: int) -> str:
        if len(names) == 1:
            return names[0]
        return random.Random(f"{self.seed}/curriculum/{draws}").choices(names, self._shares(names))[0]

    def _shares(self, names: Sequence[str]) -> list[float]:
        """How much of the tasks each part gets, relative to the others."""
        least = self.settings.least
        return [self.parts[name].weight * (least + (1 - least) * self.parts[name].spread) for name in names]


_MOST_TIMES = 32
"""Groups without spread that are counted; all above would rest as long."""
