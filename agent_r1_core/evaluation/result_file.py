"""ResultFile: a recorded evaluation with the episodes behind it; finds it in a file or a run, and scores it again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from agent_r1_core.errors import RunError
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.report import EvaluationResult, combine, report
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_core.runs.directory import lacks_marker
from agent_r1_core.runs.evaluation_file import damaged_file, read_episodes, read_evaluation
from agent_r1_core.runs.run import Run


@dataclass(frozen=True)
class ResultFile:
    """A recorded evaluation."""

    path: Path
    recorded: EvaluationResult
    episodes: list[EpisodeRecord]
    origin: tuple[str, str] | None = None
    """The run whose policy was asked, by its path then, and the checksum of the episodes: what copies of one evaluation
    have in common. None: of no run."""

    @classmethod
    def open(cls, name: str | Path) -> ResultFile:
        """Read an evaluation.

        Args:
            name: a result file, a run (its last evaluation), or `<run>/<evaluation>` such as `runs/first/eval_2`.

        Raises:
            RunError: there is none, it keeps no episodes, or a file is damaged.
        """
        path = _find(Path(name))
        data = read_evaluation(path)
        rows = read_episodes(path, data)
        origin: tuple[str, str] | None = None
        match data:
            case {"policy": {"run": str(run)}, "episodes": {"sha256": str(checksum)}}:
                origin = run, checksum
        try:
            return cls(path, EvaluationResult.from_json(data), [EpisodeRecord.from_json(row) for row in rows], origin)
        except (ValueError, RecursionError) as error:
            raise damaged_file(path) from error

    @property
    def run(self) -> Run | None:
        """The run whose evaluation it is; None: the file was copied elsewhere."""
        folder = self.path.resolve().parent
        return Run.open(folder.parent) if folder.name == "evaluations" and Run.is_run(folder.parent) else None

    def sets(self) -> dict[str, list[EpisodeRecord]]:
        """The episodes by evaluation set; the one set without a name is called ``."""
        sets: dict[str, list[EpisodeRecord]] = {name: [] for name in self.recorded.sets}
        for episode in self.episodes:
            sets.setdefault(episode.set, []).append(episode)
        return sets

    def rescored(self) -> EvaluationResult:
        """The result as this version computes it from the episodes; what was recorded beside scores stays.

        Raises:
            RunError: no episode of a set finished.
        """
        try:
            if not self.recorded.sets:
                return _again(self.recorded, self.episodes)
            results = {name: _again(self.recorded.sets[name], found) for name, found in self.sets().items()}
        except (KeyError, ValueError) as error:
            raise damaged_file(self.path) from error
        return combine(results, self.recorded.choosing_set)


def differences(recorded: EvaluationResult, again: EvaluationResult, label: str = "") -> list[str]:
    """A sentence for every score that two results do not share; intervals count, rounding errors do not."""
    sentences = [
        f"{label}{name}: {_say(recorded.metrics.get(name))} was recorded, now it is {_say(again.metrics.get(name))}"
        for name in dict.fromkeys((*recorded.metrics, *again.metrics))
        if not _same(recorded.metrics.get(name), again.metrics.get(name))
    ]
    if recorded.statuses != again.statuses:
        sentences.append(f"{label}episodes: {recorded.statuses} were recorded, now they are {again.statuses}")
    for name, scorer in again.scorers.items():
        if recorded.scorers.get(name, scorer) != scorer:
            sentences.append(f"{label}{name} was recorded with another scorer: {recorded.scorers[name]}")
    for name in recorded.sets:
        sentences += differences(recorded.sets[name], again.sets[name], f"{name}/")
    return sentences


def _again(recorded: EvaluationResult, episodes: list[EpisodeRecord]) -> EvaluationResult:
    return report(
        episodes,
        sampling=recorded.sampling,
        samples=recorded.samples,
        tools=recorded.tools,
        conditions=recorded.conditions,
        provenance=recorded.provenance,
        declared=recorded.declared,
    )


def _same(one: Estimate | None, other: Estimate | None) -> bool:
    if one is None or other is None:
        return one is other
    pairs = ((one.mean, other.mean), (one.low, other.low), (one.high, other.high))
    close = all(a == b or (a is not None and b is not None and math.isclose(a, b, abs_tol=1e-9)) for a, b in pairs)
    return close and (one.n, one.method) == (other.n, other.method)


def _say(value: Estimate | None) -> str:
    return "nothing" if value is None else f"{value} (n = {value.n}, {value.method})"


def _find(path: Path) -> Path:
    if path.is_file():
        return path.with_suffix(".json") if path.suffix == ".jsonl" else path
    if Run.is_run(path) or lacks_marker(path):
        newest = Run.open(path).newest_evaluation()
        if newest is None:
            raise RunError(f"run {path} has no evaluation yet; make one with: agent-r1 eval {path}")
        return newest
    if Run.is_run(path.parent):
        evaluations = Run.open(path.parent).evaluations()
        if path.name in evaluations:
            return path.parent / "evaluations" / f"{path.name}.json"
        known = ", ".join(evaluations) or "none"
        raise RunError(f"run {path.parent} has no evaluation {path.name!r}; it has: {known}")
    raise RunError(
        f"{path} is neither a result file nor a run; give a file of evaluations/, a run, or RUN/NAME for one of its "
        f"evaluations"
    )
