"""Arm: one of the policies that are compared, with its recorded evaluations: one per seed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_r1_core.errors import ConfigError, RunError
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.intervals import estimate, finished_tasks, is_share, mean_over_sets, values_of
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.evaluation.seeds import Values, by_task, joined, seed_mean
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_core.metrics.scorers import Score, scores_of
from agent_r1_core.runs.run import Run

Key = tuple[str, str]
"""A task: its evaluation set and its id."""
_TRAINED_WITH = ("algorithm", "checkpoint", "context", "engine", "env", "rewards", "tasks", "tools", "training")
"""The sections of a configuration that seeds of one policy have in common."""


@dataclass(frozen=True)
class Arm:
    """One policy, as its results show it."""

    name: str
    files: Sequence[ResultFile]
    """One per seed; all on the same questions."""
    shares: frozenset[str] = frozenset()
    """Scores that can only be 0 or 1 on these questions, whatever they may be elsewhere."""

    @classmethod
    def open(cls, text: str) -> Arm:
        """Read what `[NAME=]RESULT[,RESULT...]` names; several results are seeds of one policy.

        Raises:
            ConfigError: two of its results are the same file, or copies, or of one run, or of runs with the same seed.
            RunError: a result cannot be read.
        """
        name, equals, named = text.partition("=")
        if not equals or Path(text).exists():
            name, named = text, text
        files = [ResultFile.open(part) for part in ([named] if Path(named).exists() else named.split(","))]
        if len({file.path.resolve() for file in files}) < len(files):
            raise ConfigError(f"{text} names a result twice; give each seed its own")
        _refuse_one_seed(files)
        return cls(name, files)

    @cached_property
    def asked(self) -> list[dict[Key, EpisodeRecord]]:
        """By seed, an episode of each task, failed ones included, to see what it asked; not of the set that chooses."""
        return [_asked(file) for file in self.files]

    @property
    def result_names(self) -> list[str]:
        """By seed, what a sentence calls its result."""
        return [f"{self.name} ({file.path})" if len(self.files) > 1 else self.name for file in self.files]

    @cached_property
    def finished(self) -> frozenset[Key]:
        """The tasks that have a finished episode under every seed."""
        seeds = [
            {(episode.set, episode.task) for episode in file.episodes if not episode.failed} for file in self.files
        ]
        return frozenset(self.asked[0]).intersection(*seeds)

    @property
    def failed(self) -> list[EpisodeRecord]:
        return [episode for file in self.files for episode in file.episodes if episode.failed]

    @property
    def unlike(self) -> list[str]:
        """The settings, other than the seed, in which the trainings of its seeds differ, as far as they are known."""
        known = []
        for run in filter(None, (file.run for file in self.files)):
            with suppress(RunError):
                known.append({name: run.config().get(name) for name in _TRAINED_WITH})
        return _keys_that_differ(known)

    @cached_property
    def episodes(self) -> list[EpisodeRecord]:
        """Those of all seeds that did not fail."""
        return [episode for file in self.files for episode in file.episodes if not episode.failed]

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Every score that its episodes may have."""
        declared = {name: one for file in self.files for name, one in file.recorded.declared.items()}
        return scores_of(self.episodes, declared)

    @cached_property
    def score_names(self) -> list[str]:
        """The names of the scores that a finished episode has."""
        return [
            name for name, score in self.scores.items() if any(score.measure(one) is not None for one in self.episodes)
        ]

    def values(self, score: str, keys: frozenset[Key]) -> dict[str, list[Values]]:
        """By evaluation set, the values of each seed's tasks, of those among `keys`.

        Raises:
            ConfigError: a task of a seed has no such score.
        """
        found: dict[str, list[Values]] = {}
        for file in self.files:
            for name, episodes in file.sets().items():
                tasks = finished_tasks([one for one in episodes if (name, one.task) in keys])
                if not tasks:
                    continue
                values = values_of(self.scores[score], tasks) if score in self.scores else {}
                if len(values) < len(tasks):
                    raise ConfigError(
                        f"{file.path} has {score} for {len(values)} of {len(tasks)} tasks; compare by a score that all "
                        f"have: {', '.join(self._whole(keys))}"
                    )
                found.setdefault(name, []).append(values)
        return found

    def mean(self, score: str, keys: frozenset[Key]) -> Estimate:
        """The score over seeds and tasks; of several sets, their unweighted mean. Raises as `values`."""
        sets = self.values(score, keys)
        share = self._is_share(score, sets)
        over_tasks = mean_over_sets([estimate(list(by_task(seeds).values()), share) for seeds in sets.values()])
        return joined(seed_means(sets), over_tasks, self.is_bounded(score, sets))

    def is_bounded(self, score: str, sets: Mapping[str, Sequence[Values]]) -> bool:
        """Whether the score lies between 0 and 1."""
        return self.scores[score].bounds == "0 to 1" or self._is_share(score, sets)

    def _is_share(self, score: str, sets: Mapping[str, Sequence[Values]]) -> bool:
        samples = [samples for seeds in sets.values() for values in seeds for samples in values.values()]
        return score in self.shares or is_share(self.scores[score], samples)

    def _whole(self, keys: frozenset[Key]) -> list[str]:
        """The names of the scores that all of these tasks have."""
        kept = [one for one in self.episodes if (one.set, one.task) in keys]
        return [name for name, score in self.scores.items() if all(score.measure(one) is not None for one in kept)]


def _keys_that_differ(trees: Sequence[dict[str, Any]], prefix: str = "") -> list[str]:
    """The keys whose values are not the same in all trees."""
    found = []
    for key in dict.fromkeys(key for tree in trees for key in tree):
        values: list[Any] = [tree.get(key) for tree in trees]
        if all(isinstance(value, dict) for value in values):
            found += _keys_that_differ(values, f"{prefix}{key}.")
        elif any(value != values[0] for value in values):
            found.append(f"{prefix}{key}")
    return found


def _asked(file: ResultFile) -> dict[Key, EpisodeRecord]:
    choosing = file.recorded.choosing_set
    asked: dict[Key, EpisodeRecord] = {}
    for episode in file.episodes:
        if choosing is None or episode.set != choosing:
            asked.setdefault((episode.set, episode.task), episode)
    return asked


def seed_means(sets: Mapping[str, Sequence[Values]]) -> list[float]:
    """The mean of each seed: the unweighted mean over the sets of its mean over tasks."""
    columns = zip(*([seed_mean(values) for values in seeds] for seeds in sets.values()), strict=True)
    return [statistics.fmean(column) for column in columns]


def _refuse_one_seed(files: Sequence[ResultFile]) -> None:
    """Refuse results that are not of several seeds; a file that lies in no run does not say its seed, and passes."""
    apart = "or compare the two with a space between them"
    copies: dict[tuple[str, str], ResultFile] = {}
    runs: dict[Path, ResultFile] = {}
    seeds: dict[tuple[str, str], ResultFile] = {}
    for file in files:
        if file.origin is not None and (other := copies.setdefault(file.origin, file)) is not file:
            raise ConfigError(
                f"{other.path} and {file.path} are copies of one evaluation, of the run {file.origin[0]}; give each "
                "seed its own"
            )
        if (run := file.run) is None:
            continue
        other = runs.setdefault(run.path, file)
        if other is not file:
            raise ConfigError(
                f"{other.path} and {file.path} are results of one run, not of two seeds; give one result of a run for "
                f"each seed, {apart}"
            )
        if (made_with := _seed_and_model(run)) is None:
            continue
        other = seeds.setdefault(made_with, file)
        if other is not file:
            raise ConfigError(
                f"{other.path} and {file.path} are results of runs with the same seed, {made_with[0]}; give runs with "
                f"different seeds (agent-r1 train ... seed=1), {apart}"
            )


def _seed_and_model(run: Run) -> tuple[str, str] | None:
    """The run's seed and the model that it began with, which may itself come from another seed; None: unknown."""
    try:
        return str(run.setting("seed")), str(run.setting("model.name"))
    except RunError:
        return None
