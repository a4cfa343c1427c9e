"""EvaluationTasks: which tasks a run is evaluated on, and which of its training tasks it holds out for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EvaluationTasks:
    """Ids of tasks, kept in the run's `evaluation_tasks.json`."""

    sets: Mapping[str, tuple[str, ...]]
    """The tasks that are evaluated, by the name of their set."""
    held_out: tuple[str, ...] | None = None
    """All tasks that are held out of training; None where no evaluation set is a part of the training tasks."""

    def behind(self, metric: str) -> frozenset[str]:
        """The tasks whose scores make up a metric: those of `eval/<set>/...`, or of every set for `eval/...`."""
        of = metric.split("/")[1]
        sets = [self.sets[of]] if of in self.sets else self.sets.values()
        return frozenset(name for ids in sets for name in ids)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"schema": 1, "sets": dict(self.sets), "held_out": self.held_out}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvaluationTasks:
        """What `to_json` wrote."""
        held_out = data["held_out"]
        sets = {name: tuple(ids) for name, ids in data["sets"].items()}
        return cls(sets, None if held_out is None else tuple(held_out))
