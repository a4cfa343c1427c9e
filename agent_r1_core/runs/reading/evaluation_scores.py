"""EvaluationScores: what a run's recorded evaluation measured, without validating the rest of its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from agent_r1_core.errors import RunError
from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_core.metrics.scorers import EXACT_MATCH, REWARD_MEAN
from agent_r1_core.runs.evaluation_file import damaged_file, read_evaluation, trajectory_files
from agent_r1_core.runs.failures import Failures

_METRICS, _FAILURES = TypeAdapter(dict[str, Estimate]), TypeAdapter(Failures)


@dataclass(frozen=True)
class EvaluationScores:
    """The scores of one evaluation."""

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


class RecordedEvaluations:
    """The evaluations of a run; files that did not change are not read again."""

    def __init__(self, folder: Path, check: Callable[[Path], object] = Path) -> None:
        """Read nothing yet; `check` is called with every file before it is read, and may raise a RunError."""
        self._folder = folder
        self._check = check
        self._read: dict[Path, tuple[tuple[int, int], EvaluationScores | RunError]] = {}

    def all(self) -> tuple[list[EvaluationScores], list[str]]:
        """The evaluations in the order of their steps, those that `agent-r1 eval` made last; and a sentence for every
        file that cannot be read."""
        found = {path: self._scores(path) for path in sorted(self._folder.glob("*.json"))}
        self._read = {path: self._read[path] for path in found}
        good = [one for one in found.values() if isinstance(one, EvaluationScores)]
        good.sort(key=lambda one: (one.step is None, one.step or 0, len(one.name), one.name))
        return good, [str(one) for one in found.values() if isinstance(one, RunError)]

    def _scores(self, path: Path) -> EvaluationScores | RunError:
        try:
            about = path.stat()
            stamp = (about.st_mtime_ns, about.st_size)
        except OSError:  # it is gone by now, or a link to nothing
            stamp = (0, 0)
        if path not in self._read or self._read[path][0] != stamp:
            try:
                self._check(path)
                self._read[path] = (stamp, EvaluationScores.read(path))
            except RunError as error:
                self._read[path] = (stamp, error)
        return self._read[path][1]
