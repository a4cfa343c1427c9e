"""What the API says about one run and about the list of runs; a part that cannot be read is null, and a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from agent_r1_core.errors import AgentR1Error
from agent_r1_core.health.monitors import MONITORS
from agent_r1_core.opening import read_json
from agent_r1_core.runs.evaluation_file import damaged_file
from agent_r1_core.runs.reading.evaluation_scores import EvaluationScores
from agent_r1_core.runs.reading.summary import RunSummary
from agent_r1_viewer.opened_runs import OpenedRun

_Part = TypeVar("_Part")

_WATCHED = {monitor.name: str(monitor.metric) for monitor in MONITORS}
"""The metric of every monitor; `health.jsonl` does not say it, nor does a monitor of another version."""
UNREADABLE = "health: not known, health.jsonl cannot be read"


def summary_answer(run: OpenedRun) -> dict[str, Any]:
    """A run in the list."""
    with run.lock:
        return _summary(run, run.summary.read())


def run_answer(run: OpenedRun) -> dict[str, Any]:
    """All of a run but its metrics and episodes."""
    parts = _Parts(run)
    with run.lock:
        summary, problems = run.summary.read(), run.summary.problems
        evaluations, _ = run.summary.evaluations.all()
    config = dict(parts.read("config.yaml", run.summary.config) or {})
    sources = config.pop("sources", None)
    alarms = parts.read("health.jsonl", run.reader.alarms) or []
    catalogue = parts.read("metric_catalogue.json", lambda: _catalogue(run))
    events = parts.read("events.jsonl", run.reader.events) or []
    return {
        "summary": _summary(run, summary),
        "config": config or None,
        "sources": sources if isinstance(sources, dict) else {},
        "catalogue": catalogue or [],
        "alarms": [asdict(alarm) | {"metric": _WATCHED.get(alarm.monitor)} for alarm in alarms],
        "events": [asdict(event) for event in events],
        "health": parts.read("health.jsonl", lambda: run.reader.health(summary.step or 0)) or UNREADABLE,
        "evaluations": [evaluation_answer(one) for one in evaluations],
        "episode_steps": parts.read("trajectories", run.reader.trajectory_steps) or [],
        "problems": list(dict.fromkeys([*parts.problems, *problems])),
    }


def evaluation_answer(one: EvaluationScores) -> dict[str, Any]:
    """An evaluation, without its episodes."""
    scores = {group: {name: score.to_answer() for name, score in found.items()} for group, found in one.sets.items()}
    failures = {group: asdict(found) for group, found in one.failures.items()}
    return {"name": one.name, "step": one.step, "headline": one.headline, "scores": scores, "failures": failures}


class _Parts:
    """Reads the parts of a run, and notes what is wrong with them."""

    def __init__(self, run: OpenedRun) -> None:
        self._run = run
        self.problems: list[str] = []

    def read(self, name: str, read: Callable[[], _Part]) -> _Part | None:
        """A part, given the file that it is in; None if it cannot be read."""
        try:
            self._run.file(name)
            return read()
        except AgentR1Error as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(f"{error.filename or name} cannot be read ({error.strerror or error})")
        return None


def _summary(run: OpenedRun, summary: RunSummary) -> dict[str, Any]:
    return {"id": run.id, **summary.to_json()}


def _catalogue(run: OpenedRun) -> list[Any]:
    """What every metric means; an absent catalogue is empty.

    Raises:
        RunError: it is damaged.
    """
    path = run.file("metric_catalogue.json")
    try:
        found = read_json(path)
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise damaged_file(path) from error
    if not isinstance(found, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in found
    ):
        raise damaged_file(path)
    return found
