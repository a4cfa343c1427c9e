"""Alarm: one line of a run's `health.jsonl`, which says that an alarm begins or that it ends."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from agent_r1_core.health.monitor import Monitor


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
        seen = monitor.seen.format(value=f"{value:.3g}", limit=f"{limit:.3g}")
        sentence = f"{seen}, since step {since}; what usually helps: {monitor.helps}"
        return cls(step, monitor.name, "begins", value, limit, since, monitor.severe, sentence)

    def end(self, step: int, value: float, limit: float) -> Alarm:
        """The end of this alarm."""
        sentence = f"the alarm that stood since step {self.since} is over"
        return Alarm(step, self.monitor, "ends", value, limit, self.since, self.severe, sentence)

    def note(self) -> str:
        """What the user reads in this step."""
        return f"step {self.step}: {self.sentence} (health.{self.monitor})"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Alarm:
        """What `to_json` gave.

        Raises:
            TypeError, ValueError: it gave something else.
        """
        alarm = cls(**record)
        for name, kind in (("step", int), ("monitor", str), ("since", int), ("severe", bool), ("sentence", str)):
            if not isinstance(getattr(alarm, name), kind):
                raise TypeError(f"{name} is no {kind.__name__}")
        if alarm.event not in ("begins", "ends"):
            raise ValueError(f"{alarm.event!r} is no event")
        return alarm
