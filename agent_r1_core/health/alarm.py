"""Alarm: one line of a run's `health.jsonl`, which says that an alarm begins or that it ends.

The lines follow from the metrics and from the section `health` of the configuration: a resume writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_r1_core.health.rule import Monitor


@dataclass(frozen=True)
class Alarm:
    """The beginning or the end of an alarm."""

    step: int
    monitor: str
    event: Literal["begins", "ends"]
    value: float
    """What the monitor saw in this step."""
    threshold: float
    """The limit of this step's value, in the unit of the metric."""
    since: int
    """The first of the steps in a row that raised the alarm."""
    severe: bool
    sentence: str

    @classmethod
    def begin(cls, step: int, monitor: Monitor, value: float, limit: float, since: int) -> Alarm:
        """The alarm of a monitor that has seen enough."""
        shares = "{value} of " in monitor.seen
        shown = [f"{100 * one:.3g} %" if shares else f"{one:.3g}" for one in (value, limit)]
        seen = monitor.seen.format(value=shown[0], limit=shown[1])
        sentence = f"{seen}, since step {since}; what usually helps: {monitor.helps}"
        return cls(step, monitor.name, "begins", value, limit, since, monitor.severe, sentence)

    def end(self, step: int, value: float, limit: float) -> Alarm:
        sentence = f"the alarm that stood since step {self.since} is over"
        return Alarm(step, self.monitor, "ends", value, limit, self.since, self.severe, sentence)

    def note(self) -> str:
        """What the user reads in this step."""
        return f"step {self.step}: {self.sentence} (health.{self.monitor})"


_NAMED = 6
"""Alarms that a line names."""


def verdict(alarms: Sequence[Alarm] | None, steps: int) -> str:
    """What the alarms of a run say: `healthy`, or which stand, the severe ones first, since when, and what the first of
    them saw. None: nobody watched."""
    if not steps:
        return "health: not known, no step is recorded"
    if alarms is None:
        return "health: not known, the run has no health.jsonl"
    standing: dict[str, Alarm] = {}
    ended: list[Alarm] = []
    for alarm in alarms:
        if alarm.event == "begins":
            standing[alarm.monitor] = alarm
        elif standing.pop(alarm.monitor, None) is not None:
            ended.append(alarm)
    of = f"{steps} step{'' if steps == 1 else 's'}"
    lines = []
    if standing:
        stand = sorted(standing.values(), key=lambda alarm: not alarm.severe)
        standing_since = (f"{alarm.monitor} since step {alarm.since}" for alarm in stand)
        lines.append(f"health: alarms stand after {of}: {_listed(standing_since)}")
        lines.append(f"{stand[0].monitor}: {stand[0].sentence}")
    if ended:
        begun = "health: healthy now, with alarms that are over" if not standing else "alarms that are over"
        lines.append(f"{begun}: {_listed(f'{one.monitor} (steps {one.since} to {one.step})' for one in ended)}")
    return "\n".join(lines or [f"health: healthy, no alarm in {of}"])


def _listed(texts: Iterable[str]) -> str:
    named = list(texts)
    more = [f"and {len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return ", ".join([*named[:_NAMED], *more])
