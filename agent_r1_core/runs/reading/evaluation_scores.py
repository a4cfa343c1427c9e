"""EvaluationScores: what a run's recorded evaluation measured, without validating the rest of its file.

`RecordedEvaluations` reads those of a run; `Kept` reads a file again only when it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter

from agent_r1_core.errors import RunError
from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_core.metrics.scorers import EXACT_MATCH, REWARD_MEAN
from agent_r1_core.runs.evaluation_file import damaged_file, read_evaluation, trajectory_files
from agent_r1_core.runs.failures import Failures

T = TypeVar("T")
_METRICS, _FAILURES = TypeAdapter(dict[str, Estimate]), TypeAdapter(Failures)


@dataclass(frozen=True)
class EvaluationScores:
    name: str
    """Its file's, without `.json`."""
    step: int | None
    """The training step of the policy; None: `agent-r1 eval` made it."""
    sets: Mapping[str, Mapping[str, Estimate]]
    """By set and metric. The set without a name comes first: the only one, or the mean over the others."""
    trajectories: Mapping[str, str]
    """The files of the episodes that were kept, by set."""
    failures: Mapping[str, Failures] = field(default_factory=dict)
    """The failed episodes of the sets that have some."""

    @classmethod
    def read(cls, path: Path) -> EvaluationScores:
        """Read an evaluation's `.json` file; a RunError where it is missing or damaged."""
        result = read_evaluation(path)
        try:
            every = {"": result, **{str(name): one for name, one in (result.get("sets") or {}).items()}}
            sets = {name: _METRICS.validate_python(one["metrics"]) for name, one in every.items()}
            failures = {
                name: _FAILURES.validate_python(one["failures"]) for name, one in every.items() if one.get("failures")
            }
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise damaged_file(path) from error
        return cls(path.stem, result.get("step"), sets, trajectory_files(path, result), failures)

    @property
    def n(self) -> int:
        """Questions that the main score counts."""
        score = self.sets[""].get(self.main)
        return 0 if score is None else score.n

    @property
    def main(self) -> str:
        """The main score's name: exact match, or the return if tasks have no answers."""
        scores = self.sets[""]
        return next((name for name in (EXACT_MATCH, REWARD_MEAN) if name in scores), next(iter(scores), ""))

    @property
    def headline(self) -> str:
        """The main score, as in `exact_match 0.385 [0.320, 0.454] (n = 200)`; empty without scores."""
        score = self.sets[""].get(self.main)
        if score is None:
            return ""
        return " ".join(filter(None, (self.main, f"{score.mean:.3f}", score.interval, f"(n = {score.count})")))

    def score(self, measured: str) -> Estimate | None:
        """A metric as checkpoints name it: `eval/<metric>` or `eval/<set>/<metric>`."""
        name = measured.removeprefix(metric.EVALUATION)
        if name in self.sets[""]:
            return self.sets[""][name]
        group, _, rest = name.partition("/")
        return self.sets.get(group, {}).get(rest)


class Kept(Generic[T]):
    """What files hold, each read again only when it has changed."""

    def __init__(self, read: Callable[[Path], T]) -> None:
        self._read = read
        self._kept: dict[Path, tuple[tuple[int, int], T]] = {}

    def of(self, path: Path) -> T:
        """What the file holds now; raises what reading it raises."""
        try:
            about = path.stat()
        except OSError:  # it is gone by now, or a link to nothing
            return self._read(path)
        stamp = (about.st_mtime_ns, about.st_size)
        if path not in self._kept or self._kept[path][0] != stamp:
            self._kept[path] = (stamp, self._read(path))
        return self._kept[path][1]


class RecordedEvaluations:
    def __init__(self, folder: Path, check: Callable[[Path], object] = Path) -> None:
        """Read nothing yet; `check` is called with every file before it is read, and may raise a RunError."""
        self._folder = folder
        self._check = check
        self._kept = Kept(self._scores)

    def all(self) -> tuple[list[EvaluationScores], list[str]]:
        """The evaluations in the order of their steps, those that `agent-r1 eval` made last; and a sentence for every
        file that cannot be read."""
        found = [self._kept.of(path) for path in sorted(self._folder.glob("*.json"))]
        good = [one for one in found if isinstance(one, EvaluationScores)]
        good.sort(key=lambda one: (one.step is None, one.step or 0, len(one.name), one.name))
        return good, [str(one) for one in found if isinstance(one, RunError)]

    def _scores(self, path: Path) -> EvaluationScores | RunError:
        try:
            self._check(path)
            return EvaluationScores.read(path)
        except RunError as error:
            return error
