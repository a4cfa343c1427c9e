"""Watch: judges the metrics of each step. Its state follows from the metrics alone, so that a resume replays them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, create_model

from agent_r1_core.contracts.component import Section
from agent_r1_core.health.alarm import Alarm
from agent_r1_core.health.monitors import MONITORS
from agent_r1_core.health.rule import MeasuredFall, Monitor, Past, Rule, RunningMean

_OFF = "off"


class _HealthSection(Section):
    """What happens when training collapses, and the rule of every monitor."""

    early_stop: bool = False
    """End the run when a severe monitor raises an alarm."""
    if TYPE_CHECKING:
        information: MeasuredFall | None = None
        thought_effect: MeasuredFall | None = None

    def rules(self) -> Iterator[tuple[Monitor, Rule]]:
        for monitor in MONITORS:
            rule: Rule | None = getattr(self, monitor.name)
            if rule is not None:
                yield monitor, rule


def _on(value: Any) -> Any:
    return None if value == _OFF else value


def _written(rule: Rule | None) -> Any:
    return _OFF if rule is None else rule.model_dump(mode="json")


def _field(rule: Rule) -> tuple[Any, Rule]:
    """A monitor's key: the numbers of its rule, or `off`."""
    return Annotated[type(rule) | None, BeforeValidator(_on), PlainSerializer(_written)], rule


if TYPE_CHECKING:
    HealthConfig = _HealthSection
else:
    HealthConfig = create_model(
        "HealthConfig",
        __base__=_HealthSection,
        __cls_kwargs__={"use_attribute_docstrings": False},  # pydantic would search every frame and module for them
        **{monitor.name: _field(monitor.rule) for monitor in MONITORS},
    )


_CALM = 5
"""Values within bounds that end an alarm, at least: one that comes and goes is seldom reported."""


@dataclass
class Watched:
    """A monitor at work."""

    monitor: Monitor
    rule: Rule
    past: Past = field(init=False)
    values: RunningMean = field(init=False)
    """Of what it watches."""
    gains: RunningMean = field(init=False)
    """Of the monitor's `gain`."""
    beyond: int = 0
    """Values in a row beyond the limit."""
    within: int = 0
    """Values in a row within it."""
    since: int = 0
    """The first step of those beyond."""
    alarm: Alarm | None = None
    """The alarm that stands."""

    def __post_init__(self) -> None:
        self.past, size = Past(self.rule.memory()), self.rule.smoothing()
        self.values, self.gains = RunningMean(size), RunningMean(size)

    def judge(self, step: int, value: float, gain: float | None = None) -> Alarm | None:
        """The alarm that begins or ends with a value; `gain` is that of the monitor's other metric."""
        value = self.values.add(value)
        if gain is not None:
            self.gains.add(gain)
        if not self.values.full:
            return None
        limit = self.rule.limit(self.past)
        if limit is not None and self.rule.beyond(value, limit) and not self.gains.risen:
            self.since = self.since if self.beyond else step
            self.beyond, self.within = self.beyond + 1, 0
            if self.alarm is not None or self.beyond < self.rule.steps:
                return None
            self.alarm = Alarm.begin(step, self.monitor, value, limit, self.since)
            return self.alarm
        self.past.add(value)
        self.beyond, self.within = 0, self.within + 1
        if self.alarm is None or limit is None or self.within < max(self.rule.steps, _CALM):
            return None
        ended, self.alarm = self.alarm.end(step, value, limit), None
        return ended


class Watch:
    """All monitors of a run.

    Args:
        idle: monitors that are not judged, since their metric says nothing in this run.
    """

    def __init__(self, settings: HealthConfig, idle: Collection[str] = ()) -> None:
        self._watched = [Watched(monitor, rule) for monitor, rule in settings.rules() if monitor.name not in idle]

    def judge(self, step: int, metrics: Mapping[str, float]) -> list[Alarm]:
        """The alarms that begin or end with a step's metrics."""
        alarms = []
        for watched in self._watched:
            value = watched.monitor.value(metrics)
            alarm = None if value is None else watched.judge(step, value, watched.monitor.gained(metrics))
            if alarm is not None:
                alarms.append(alarm)
        return alarms

    def replay(self, lines: Sequence[Mapping[str, Any]]) -> list[Alarm]:
        """The alarms of all steps of a run, from its metrics."""
        return [alarm for line in lines for alarm in self.judge(line["step"], line)]

    @property
    def severe(self) -> Alarm | None:
        """The first alarm that stands and is a reason to stop."""
        standing = [watched.alarm for watched in self._watched if watched.alarm is not None and watched.alarm.severe]
        return min(standing, key=lambda alarm: alarm.step, default=None)
