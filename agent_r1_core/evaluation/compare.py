"""Compares policies on the same questions, pair by pair: differences with intervals, p-values, Holm's correction.

Every score is computed anew from the recorded episodes, by one scorer, and subtracted question by question (paired.py
has the formulas). Where a policy has several seeds, they widen interval and p-value, so that a difference between seeds
is not taken for one between policies. With one seed a side, neither says anything about other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Any

from agent_r1_core.errors import ConfigError
from agent_r1_core.evaluation.arm import Arm, Key, seed_means
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.paired import paired_difference
from agent_r1_core.evaluation.report import EvaluationResult
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.evaluation.seeds import Values, by_task
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_core.metrics.scorers import EXACT_MATCH, REWARD_MEAN, SCORERS
from agent_r1_core.runs.failures import Failures


@dataclass(frozen=True)
class Difference:
    """How much better the first policy is than the second."""

    first: str
    second: str
    mean: float
    """First minus second."""
    low: float | None
    """The 95 % interval, which holds 0 where p is .05 or more; None: a single question has none, and so has a score
    without bounds that is the same on all questions."""
    high: float | None
    p: float | None
    """Two-sided: how often a difference is as far from 0 if it is chance which policy has which score of a question."""
    p_holm: float | None
    """Corrected for the number of pairs (Holm 1979)."""
    n: int
    """Questions."""

    def row(self) -> tuple[str, str, str, str, str, str]:
        """A row of a table: pair, difference, interval, p, corrected p, n."""
        interval = "" if self.low is None else f"[{self.low:+.3f}, {self.high:+.3f}]"
        pair = f"{self.first} - {self.second}"
        return pair, f"{self.mean:+.3f}", interval, _p(self.p), _p(self.p_holm), str(self.n)


@dataclass(frozen=True)
class Comparison:
    """Policies on the same questions."""

    score: str
    means: dict[str, Estimate]
    """By policy."""
    differences: list[Difference]
    """One per pair."""
    files: dict[str, list[str]]
    """The result files of each policy, one per seed."""
    notes: list[str]
    """What a reader must know: questions that are left out, policies that were evaluated differently."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compare(arms: Sequence[Arm], score: str | None = None, common: bool = False) -> Comparison:
    """Compare policies.

    Args:
        arms: two or more; or one with several seeds, for its mean.
        score: the score's declared name; None: exact match, or the return where a task has no answers.
        common: compare the questions that all have, instead of refusing others.

    Raises:
        ConfigError: there is a single result, or two policies of one name; they have no such score, or were asked
            different questions.
    """
    if len(arms) < 2 and not any(len(arm.files) > 1 for arm in arms):
        raise ConfigError(
            "a comparison needs two results at least; give the files or runs to compare, or the seeds of one as A,B,C"
        )
    names = [arm.name for arm in arms]
    if len(set(names)) < len(names):
        raise ConfigError(f"two of {', '.join(names)} have the same name; write NAME=RESULT to tell them apart")
    if score is not None:
        _refuse_unknown_score(arms, score)
    keys, asked, notes = _questions(arms, common)
    if score is None:
        answered = all(asked[key].answers for arm in arms for asked in arm.asked for key in keys)
        score = EXACT_MATCH if answered else REWARD_MEAN
    found = [_difference(one, other, score, keys) for one, other in combinations(arms, 2)]
    corrected = holm([difference.p for difference in found])
    return Comparison(
        score=score,
        means={arm.name: arm.mean(score, keys).out_of(asked) for arm in arms},
        differences=[replace(one, p_holm=p) for one, p in zip(found, corrected, strict=True)],
        files={arm.name: [str(file.path) for file in arm.files] for arm in arms},
        notes=notes + _other_scorers(arms, score) + _unlike(arms),
    )


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) correction of several p-values; None stays None."""
    known = sorted((p, place) for place, p in enumerate(values) if p is not None)
    corrected, largest = list(values), 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[place] = largest
    return corrected


def _difference(first: Arm, second: Arm, score: str, keys: frozenset[Key]) -> Difference:
    one, other = first.values(score, keys), second.values(score, keys)
    sets = [_apart(one[name], other[name]) for name in sorted(one)]
    bounded = first.is_bounded(score, one) and second.is_bounded(score, other)
    found, p = paired_difference(sets, [seed_means(one), seed_means(other)], bounded)
    return Difference(first.name, second.name, found.mean, found.low, found.high, p, None, len(keys))


def _apart(one: Sequence[Values], other: Sequence[Values]) -> list[float]:
    """First minus second of each task, a mean over its seeds and samples; exactly 0 where only rounding differs."""
    theirs = by_task(other)
    pairs = [(fmean(values), fmean(theirs[task])) for task, values in by_task(one).items()]
    return [0.0 if math.isclose(mine, its, rel_tol=1e-12) else mine - its for mine, its in pairs]


def _questions(arms: Sequence[Arm], common: bool) -> tuple[frozenset[Key], int, list[str]]:
    """The questions to compare, how many all were asked, and what is left out."""
    notes, every = [], [found for arm in arms for found in zip(arm.result_names, arm.asked, strict=True)]
    shared = frozenset.intersection(*(frozenset(own) for _, own in every))
    if not shared:
        raise _nothing_shared(arms)
    for name, own in every:
        if len(own) > len(shared):
            if not common:
                raise ConfigError(
                    f"{len(own) - len(shared)} of the {len(own)} questions of {name} were not asked in every other "
                    f"result; give evaluations of the same tasks, or --common to compare on the {len(shared)} that all "
                    f"share"
                )
            notes.append(f"{name}: {len(own) - len(shared)} of {len(own)} questions are left out: others lack them")
    _refuse_other_questions(every, shared)
    for arm in arms:
        lost = len(shared) - len(arm.finished & shared)
        if lost:
            failures = Failures.among([one.reason for one in arm.failed if (one.set, one.task) in shared], lost)
            why = f": {failures.reason}" if failures is not None and failures.reason else ""
            notes.append(f"{arm.name}: {lost} of {len(shared)} questions are left out, since an episode failed{why}")
    keys = shared.intersection(*(arm.finished for arm in arms))
    if not keys:
        raise _nothing_shared(arms, " whose episodes finished")
    return keys, len(shared), notes


def _nothing_shared(arms: Sequence[Arm], which: str = "") -> ConfigError:
    names = " and ".join(arm.name for arm in arms) if len(arms) > 1 else f"the results of {arms[0].name}"
    return ConfigError(f"{names} share no question{which}; compare results of one data set")


def _refuse_unknown_score(arms: Sequence[Arm], score: str) -> None:
    """Refuse a score that no episode of a policy has, before anything that matters only for one that exists."""
    for arm in arms:
        if score not in arm.score_names:
            common = [name for name in arms[0].score_names if all(name in other.score_names for other in arms)]
            raise ConfigError(f"{arm.name} has no score {score!r}; compare by one that all have: {', '.join(common)}")


def _refuse_other_questions(every: Sequence[tuple[str, Mapping[Key, EpisodeRecord]]], keys: frozenset[Key]) -> None:
    """Refuse one id with two questions or two sets of accepted answers."""
    (first_name, first_asked), *others = every
    for key in sorted(keys):
        first = first_asked[key]
        for name, asked in others:
            other = asked[key]
            if (first.question, set(first.answers)) != (other.question, set(other.answers)):
                raise ConfigError(
                    f"the task {key[1]!r} asks {first.question[:80]!r} in {first_name} and {other.question[:80]!r} "
                    f"in {name}, or accepts other answers; compare results of the same data set"
                )


def _other_scorers(arms: Sequence[Arm], score: str) -> list[str]:
    """The results that were recorded with another meaning of the score."""
    return [
        f"{arm.name}: {file.path} was recorded with another scorer of {score}, and is scored anew here"
        for arm in arms
        for file in arm.files
        if file.recorded.scorers.get(score, SCORERS.get(score)) != SCORERS.get(score)
    ]


def _unlike(arms: Sequence[Arm]) -> list[str]:
    """What was different in the evaluations, other than the policy, and in the trainings of one policy's seeds."""
    notes = []
    for arm in arms:
        if arm.unlike:
            notes.append(f"{arm.name}: its seeds were trained with different {', '.join(arm.unlike)}")
        for file in arm.files:
            said = dict.fromkeys(sentence for result in _scored(file).values() for sentence in result.conditions)
            notes += [f"{arm.name}: {sentence}" for sentence in said]
    every = [result for arm in arms for file in arm.files for result in _scored(file).values()]
    for what in dict.fromkeys(key for result in every for key in result.sampling if key != "seed"):
        notes += _differing(what, arms, lambda result, what=what: str(result.sampling.get(what)))  # type: ignore[misc]
    return list(dict.fromkeys([*notes, *_differing("tools", arms, lambda result: _listed(result.tools))]))


def _differing(what: str, arms: Sequence[Arm], of: Callable[[EvaluationResult], str]) -> list[str]:
    """A sentence for the sets in which not all evaluations have the same."""
    sets: dict[str, dict[str, set[str]]] = {}
    for arm in arms:
        for name, result in (item for file in arm.files for item in _scored(file).items()):
            sets.setdefault(name, {}).setdefault(arm.name, set()).add(of(result))
    said: dict[str, list[str]] = {}
    for name, found in sets.items():
        if len(set().union(*found.values())) > 1:
            values = ", ".join(f"{arm} {' / '.join(sorted(ones))}" for arm, ones in found.items())
            said.setdefault(values, []).append(name)
    return [f"different {what}{' in ' * any(names)}{', '.join(names)}: {values}" for values, names in said.items()]


def _scored(file: ResultFile) -> dict[str, EvaluationResult]:
    """The sets that are compared: all but the one that chose the checkpoint."""
    sets = {name: one for name, one in file.recorded.sets.items() if name != file.recorded.choosing_set}
    return sets or {"": file.recorded}


def _listed(tools: Mapping[str, Mapping[str, Any]]) -> str:
    facts = {name: ", ".join(f"{key} {value}" for key, value in said.items()) for name, said in tools.items()}
    return "; ".join(f"{name} ({text})" for name, text in facts.items()) or "none"


def _p(value: float | None) -> str:
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"
