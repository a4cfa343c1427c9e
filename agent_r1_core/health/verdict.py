"""The verdict on a run: one to three lines from its alarms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_r1_core.health.alarm import Alarm

_NAMED = 6
"""Alarms that a line names."""


def verdict(alarms: Sequence[Alarm] | None, steps: int) -> str:
    """What the alarms of a run say: `healthy`, or which stand, since when, and what the first of them saw.

    Args:
        alarms: in the order of their steps; None: nobody watched.
        steps: that the run has recorded.
    """
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
        lines.append(f"health: alarms stand after {of}: {_listed(_since(alarm) for alarm in standing.values())}")
        first = next(iter(standing.values()))
        lines.append(f"{first.monitor}: {first.sentence}")
    if ended:
        begun = "health: healthy now, with alarms that are over" if not standing else "alarms that are over"
        lines.append(f"{begun}: {_listed(f'{one.monitor} (steps {one.since} to {one.step})' for one in ended)}")
    return "\n".join(lines or [f"health: healthy, no alarm in {of}"])


def _since(alarm: Alarm) -> str:
    return f"{alarm.monitor} since step {alarm.since}"


def _listed(texts: Iterable[str]) -> str:
    named = list(texts)
    more = [f"and {len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return ", ".join([*named[:_NAMED], *more])
