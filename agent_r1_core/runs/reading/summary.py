"""RunSummary: what a list of runs says about one of them; SummaryReader reads it again and again, the new parts only.

A part that cannot be read is None, and `problem` says why; everything else is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from agent_r1_core.errors import AgentR1Error
from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_core.opening import read_json, read_text
from agent_r1_core.runs import lock
from agent_r1_core.runs.directory import MARKER, is_run, missing
from agent_r1_core.runs.evaluation_file import damaged_file
from agent_r1_core.runs.events_file import RunState
from agent_r1_core.runs.failures import Failures
from agent_r1_core.runs.reading.evaluation_scores import EvaluationScores, Kept, RecordedEvaluations
from agent_r1_core.runs.reading.metrics_tail import MetricsTail
from agent_r1_core.runs.run_reader import RunReader, parsed_config

POINTS = 60
"""Of the small curve."""
_NEEDED = ("algorithm", "checkpoint", "model", "training")
_Part = TypeVar("_Part")


@dataclass(frozen=True)
class BestScore:
    """The best evaluation of a run."""

    metric: str
    score: Estimate
    step: int | None
    failures: Failures | None = None
    """Of the evaluation, all sets together."""


@dataclass(frozen=True)
class RunSummary:
    """One run in a list."""

    name: str
    path: Path
    state: str | None
    """`training`, `finished`, `interrupted` or `failed`."""
    sentence: str | None
    """The state in words."""
    recipe: str | None
    """Its name; None where the run does not say it."""
    algorithm: str | None
    model: str | None
    step: int | None
    """The newest recorded step."""
    steps: int | None
    """Planned steps."""
    best: BestScore | None
    curve: list[tuple[int, float]]
    """Steps and their mean rewards: at most `POINTS`, evenly chosen, the newest among them."""
    created: float | None
    """Unix seconds, as `updated`."""
    updated: float | None
    seconds: float | None
    """Of all recorded steps."""
    problem: str | None
    """What could not be read, and why."""

    @classmethod
    def of(cls, run: RunReader) -> RunSummary:
        """The summary of a run that is looked at once."""
        return SummaryReader(run).read()

    def to_json(self) -> dict[str, Any]:
        """Plain data; the best score is one object."""
        best = self.best
        score = None if best is None else {**asdict(best), **best.score.to_answer()}
        if score is not None:
            del score["score"]
        return {**asdict(self), "path": str(self.path), "best": score}


class SummaryReader:
    """Keeps what it has read of a run's metrics, evaluations and configuration."""

    def __init__(self, run: RunReader, check: Callable[[Path], object] = Path) -> None:
        """Read nothing yet; `check` is called with every file before it is read, and may raise a RunError."""
        self.run = run
        self.metrics = MetricsTail(run.path / "metrics.jsonl", only=(metric.REWARD_MEAN, metric.TIME_STEP))
        self.evaluations = RecordedEvaluations(run.path / "evaluations", check)
        self.check = check
        self._config = Kept(lambda _: run.config())
        self._sections = Kept(lambda path: read_sections(path, _NEEDED) if path.is_file() else run.config())
        self.problems: list[str] = []
        """What could not be read the last time, a sentence each."""

    def read(self) -> RunSummary:
        """The run as it is now."""
        self.problems = []
        state = self._part("events.jsonl", self.state)
        config = self._part("config.yaml", lambda: self._sections.of(self.run.path / "config.yaml")) or {}
        self._part("metrics.jsonl", self.metrics.update)
        about = self._part(MARKER, self._about) or {}
        evaluations, damaged = self.evaluations.all()
        self.problems += [*filter(None, [self.metrics.problem]), *damaged]
        unread = self.metrics.last_step is None and not (self.run.path / "metrics.jsonl").exists()
        if unread and any(step > 1 for step in self.run.trajectory_steps()):
            self.problems.append(
                f"run {self.run.path} has episodes of training, but no metrics.jsonl; restore it from a copy"
            )
        seconds = [value for value in self.metrics.column(metric.TIME_STEP) if value is not None]
        planned = _at(config, "training", "steps")
        return RunSummary(
            name=self.run.name,
            path=self.run.path,
            state=None if state is None else str(state.kind),
            sentence=None if state is None else state.sentence,
            recipe=_text(about.get("recipe")),
            algorithm=_text(_at(config, "algorithm", "name")),
            model=_text(_at(config, "model", "name")),
            step=self.metrics.last_step,
            steps=planned if isinstance(planned, int) else None,
            best=_best(evaluations, _text(_at(config, "checkpoint", "best"))),
            curve=self._curve(),
            created=_created(about),
            updated=_updated(self.run.path),
            seconds=sum(seconds) if seconds else None,
            problem="; ".join(self.problems) or None,
        )

    def state(self) -> RunState:
        """Whether the run is trained just now, else how its training ended; a RunError where its events are damaged."""
        for name in (lock.NAME, "events.jsonl"):
            self.check(self.run.path / name)
        return self.run.state()

    def config(self) -> Mapping[str, Any]:
        """The configuration, parsed again only when its file changed; raises as `RunReader.config`."""
        return self._config.of(self.run.path / "config.yaml")

    def _part(self, name: str, read: Callable[[], _Part]) -> _Part | None:
        try:
            self.check(self.run.path / name)
            return read()
        except AgentR1Error as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(f"{error.filename or self.run.path} cannot be read ({error.strerror or error})")
        return None

    def _curve(self) -> list[tuple[int, float]]:
        rewards = self.metrics.column(metric.REWARD_MEAN)
        known = [(step, value) for step, value in zip(self.metrics.steps, rewards, strict=False) if value is not None]
        if len(known) <= POINTS:
            return known
        last = len(known) - 1
        return [known[round(place * last / (POINTS - 1))] for place in range(POINTS)]

    def _about(self) -> dict[str, Any]:
        if not is_run(self.run.path):
            raise missing(self.run.path)
        return dict(read_json(self.run.path / MARKER))


def _best(evaluations: list[EvaluationScores], measured: str | None) -> BestScore | None:
    """The highest score of the metric that chooses checkpoints, or of the main one; of evaluations in training, unless
    `agent-r1 eval` made all. The earliest wins a tie."""
    trained = [one for one in evaluations if one.step is not None] or evaluations
    found = [(one, one.score(measured)) for one in trained] if measured else []
    name = (measured or "").removeprefix(metric.EVALUATION)
    best = [BestScore(name, score, one.step, one.failures.get("")) for one, score in found if score is not None]
    if not best:
        best = [
            BestScore(one.main, one.sets[""][one.main], one.step, one.failures.get(""))
            for one in trained
            if one.sets[""]
        ]
        best = [one for one in best if one.metric == best[-1].metric]
    return max(best, key=lambda one: one.score.mean) if best else None


def _created(about: Mapping[str, Any]) -> float | None:
    try:
        return datetime.strptime(about["created"], "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except (ValueError, LookupError, TypeError):
        return None


def _updated(path: Path) -> float | None:
    times = []
    for name in ("metrics.jsonl", "events.jsonl", "evaluations", "config.yaml"):
        try:
            times.append((path / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=None)


def _at(config: Mapping[str, Any], *keys: str) -> Any:
    value: Any = config
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


_SECTION = re.compile(r"(\w+):")


def read_sections(path: Path, names: Collection[str]) -> dict[str, Any]:
    """The sections with these names; those that are missing are left out.

    Raises:
        OSError: the file cannot be read.
        RunError: it is damaged there.
    """
    try:
        text = read_text(path)
    except UnicodeDecodeError as error:
        raise damaged_file(path) from error
    kept, lines = True, []
    for line in text.split("\n"):
        section = _SECTION.match(line)
        if section is not None:
            kept = section[1] in names
        lines.append(line if kept else "")  # empty lines keep the numbers of the others
    return parsed_config(path, "\n".join(lines))
