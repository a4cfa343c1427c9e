"""EvaluationTasks: the tasks that a run is evaluated on, and those that it holds out of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EvaluationTasks:
    """Ids of tasks, kept in the run's `evaluation_tasks.json`."""

    sets: Mapping[str, tuple[str, ...]]
    """The tasks of each evaluation set, by its name."""
    held_out: tuple[str, ...] | None = None
    """All tasks that are held out of training; None if no evaluation set is taken from the training tasks."""

    def behind(self, metric: str) -> frozenset[str]:
        """The tasks that a metric scores: one set's for `eval/<set>/...`, every set's for `eval/...`."""
        name = metric.partition("/")[2].partition("/")[0]
        sets = [self.sets[name]] if name in self.sets else self.sets.values()
        return frozenset(task for ids in sets for task in ids)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"schema": 1, "sets": dict(self.sets), "held_out": self.held_out}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvaluationTasks:
        """What `to_json` wrote; raises KeyError, TypeError or AttributeError if it is malformed."""
        held_out = data["held_out"]
        sets = {name: _ids(ids) for name, ids in data["sets"].items()}
        return cls(sets, None if held_out is None else _ids(held_out))


def _ids(values: Any) -> tuple[str, ...]:
    if not (isinstance(values, list) and all(isinstance(value, str) for value in values)):
        raise TypeError("ids are texts")
    return tuple(values)
