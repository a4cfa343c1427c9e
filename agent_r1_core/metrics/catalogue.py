"""Catalogue: looks up declared metrics by name, those of the core and those of a run's components."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from agent_r1_core.contracts.metric import Metric
from agent_r1_core.contracts.toolset import Toolset
from agent_r1_core.errors import ConfigError
from agent_r1_core.metrics.declared import DECLARED, EVALUATION
from agent_r1_core.metrics.scorers import recipe_score
from agent_r1_core.nearest import did_you_mean

if TYPE_CHECKING:
    from agent_r1_core.contracts.component import Component

PREFIXES = {"algorithm": "update/", "env": "env/", "tool": "tools/{name}/", "reward": "reward/{name}/"}
"""Prefix of a component's own metrics, by its kind."""


class Catalogue:
    """The metrics that a run may report."""

    def __init__(self, metrics: Iterable[Metric] = ()) -> None:
        """The core's metrics and `metrics`; a later declaration of a name replaces an earlier one."""
        self._declared = {str(metric): metric for metric in (*DECLARED, *metrics)}

    @classmethod
    def with_components(cls, components: Iterable[tuple[str, str, type[Component]]]) -> Catalogue:
        """The core's metrics and those that components declare, given as (kind, name, class)."""
        return cls(metric for component in components for metric in _own(*component))

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._declared.values())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __getitem__(self, name: str) -> Metric:
        """The metric of that name; for a member of a family, the family's declaration under the member's name.

        Raises:
            ConfigError: no metric has that name.
        """
        metric = self.get(name)
        if metric is None:
            hint = did_you_mean(name, self._declared)
            raise ConfigError(f"no metric is called {name!r}{hint}; `agent-r1 metrics` lists them")
        return metric

    def get(self, name: str) -> Metric | None:
        if name in self._declared:
            return self._declared[name]
        family = next((metric for pattern, metric in self._families if pattern.fullmatch(name)), None)
        return family and Metric(name, family.meaning, unit=family.unit, better=family.better)

    def undeclared(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self]

    @cached_property
    def _families(self) -> list[tuple[re.Pattern[str], Metric]]:
        return [(_pattern(metric), metric) for metric in self._declared.values() if "<" in metric]


def _own(kind: str, name: str, component: type[Component]) -> Iterable[Metric]:
    """The metrics that a component declares, under the names that a run reports."""
    if kind == "score":
        return [recipe_score(name, component.declared).under(EVALUATION)]  # type: ignore[attr-defined]
    if issubclass(component, Toolset):
        name = "<tool>"
    return [metric.under(PREFIXES[kind].format(name=name)) for metric in component.metrics if kind in PREFIXES]


def _pattern(name: str) -> re.Pattern[str]:
    """A pattern in which each `<part>` matches one part of a name: `reward/<name>` matches `reward/f1`."""
    return re.compile(
        "".join("[^/]+" if part.startswith("<") else re.escape(part) for part in re.split("(<.*?>)", name))
    )
