"""EvaluationResult: scores of a policy with their scorers, n, intervals and sampling settings (LAW 12).

Failed episodes are the infrastructure's fault: they are counted but not scored (LAW 5). An episode that ran out of
budget is scored; it has no answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter

from agent_r1_core.contracts.score import DeclaredScore
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.intervals import estimates, finished_tasks, lost_tasks, mean_over_sets
from agent_r1_core.metrics import scorers as metric
from agent_r1_core.metrics.declared import EVALUATION
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_core.metrics.scorers import SCORERS, exact_match_score, is_accepted, scores_of
from agent_r1_core.runs.failures import Failures
from agent_r1_core.trajectory import EndStatus

BREAKDOWN_COLUMNS = (metric.EXACT_MATCH, metric.F1, metric.RETRIEVAL_RECALL, metric.REWARD_MEAN)
"""The scores that the printed breakdown has; the JSON has all main scores."""

NOTABLE_TOOL_ERRORS = 0.1
"""The share of tool calls that ended in errors from which on a result says so."""


@dataclass(frozen=True)
class EvaluationResult:
    """The result of an evaluation."""

    n: int
    """Tasks that were scored."""
    samples: int
    """Episodes asked for per task."""
    metrics: dict[str, Estimate]
    """By name, those of metrics/scorers.py that the tasks have: `exact_match`, `pass@k`, `reward/<name>`, ..."""
    scorers: dict[str, str]
    """What the scores of answers and of retrieval mean."""
    sampling: dict[str, Any]
    """How actions were sampled: greedy or not, temperature, budgets, seed."""
    statuses: dict[str, int]
    """Episodes by end status."""
    asked: int | None = None
    """Tasks that were asked, `n` of which were scored; None: recorded before this was."""
    failures: Failures | None = None
    """The failed episodes, with their commonest reason; None: there are none."""
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How each tool describes itself: a search tool names its corpus and the number of passages."""
    conditions: tuple[str, ...] = ()
    """What else a reader must know: a baseline, silenced tools, a checkpoint that these same tasks chose, tools that
    failed."""
    provenance: dict[str, str] = field(default_factory=dict)
    """What the scores rest on, a sentence each: `corpus`, `checkpoint` (how it was chosen, on what) and `held_out` (of
    training); of several sets, each has its own."""
    breakdowns: Breakdowns = field(default_factory=dict)
    """The main scores by source, hops and question type, where the tasks say theirs; of several sets, each has its
    own."""
    sets: dict[str, EvaluationResult] = field(default_factory=dict)
    """The results by set if there are several; the other fields are then means and sums over the sets."""
    choosing_set: str | None = None
    """The set that chooses checkpoints; it is in no mean."""
    declared: dict[str, DeclaredScore] = field(default_factory=dict)
    """The recipe's `scores` by name, as their plugins declare them."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvaluationResult:
        """The result that `to_json` wrote; other keys are ignored, and a ValueError says that it is malformed."""
        return TypeAdapter(cls).validate_python(data)

    def to_metrics(self, prefix: str = EVALUATION) -> dict[str, float]:
        """The means, for `metrics.jsonl` and trackers; `exact_match` also with `_low` and `_high`. Those of each set
        follow under `<prefix><set>/`."""
        flat = {f"{prefix}{name}": value.mean for name, value in self.metrics.items()}
        flat[f"{prefix}{metric.N}"] = float(self.n)
        flat[f"{prefix}{metric.FAILED}"] = float(self.statuses.get(EndStatus.FAILED.value, 0))
        exact = self.metrics.get(metric.EXACT_MATCH)
        if exact is not None and exact.low is not None and exact.high is not None:
            flat |= {f"{prefix}{metric.EXACT_MATCH_LOW}": exact.low, f"{prefix}{metric.EXACT_MATCH_HIGH}": exact.high}
        for name, result in self.sets.items():
            flat |= result.to_metrics(f"{prefix}{name}/")
        return flat

    def rows(self, label: str = "") -> list[tuple[str, str, str, str, str]]:
        """Table rows: metric, mean, 95 % interval, method, n. Those of a set follow, as `<set>/<metric>`."""
        rows = [(f"{label}{name}", *value.row()) for name, value in self.metrics.items()]
        return rows + [row for name, result in self.sets.items() for row in result.rows(f"{name}/")]

    def breakdown_rows(self, label: str = "") -> list[tuple[str, ...]]:
        """Rows of a compact table: which tasks, n, and their main scores; only where the tasks differ."""
        rows = [
            (
                f"{label}{key} {value}",
                max(scores.values(), key=lambda one: one.n).count,
                *(str(scores[name]) if name in scores else "" for name in BREAKDOWN_COLUMNS),
            )
            for key, parts in self.breakdowns.items()
            if len(parts) > 1
            for value, scores in parts.items()
        ]
        return rows + [row for name, result in self.sets.items() for row in result.breakdown_rows(f"{name}/")]

    def headline(self) -> str:
        """The main score as a sentence: exact match, or the return if tasks have no answers."""
        return self.sentence(metric.EXACT_MATCH if metric.EXACT_MATCH in self.metrics else metric.REWARD_MEAN)

    def sentence(self, name: str = metric.EXACT_MATCH) -> str:
        """One metric with its interval and n: `exact_match 0.385 [0.320, 0.454] (95 %, wilson, n = 200, greedy)`.

        Raises:
            KeyError: the metric was not measured.
        """
        value = self.metrics[name]
        how = "greedy" if self.sampling.get("greedy") else f"temperature {self.sampling.get('temperature', 'unknown')}"
        unscored = "".join(f", {sentence}" for sentence in self.failure_lines()[:1])
        found = [(label, result.metrics[name]) for label, result in self.sets.items() if name in result.metrics]
        sets = [f"{label} {one}{f' (n = {one.count})' * (one.asked is not None)}" for label, one in found]
        by_set = f": {', '.join(sets)}" if sets else ""
        return f"{name} {value} (95 %, {value.method}, n = {value.count}, {how}{unscored}){by_set}"

    def failure_lines(self, label: str = "") -> list[str]:
        """What failed and is in no score, a sentence for all sets and one for each; empty: nothing failed."""
        own = [] if self.failures is None else [f"{label}{self.failures.sentence()}"]
        return own + [line for name, result in self.sets.items() for line in result.failure_lines(f"{name}: ")]


def report(
    episodes: Sequence[EpisodeRecord],
    *,
    sampling: Mapping[str, Any],
    samples: int = 1,
    tools: Mapping[str, dict[str, Any]] | None = None,
    conditions: Sequence[str] = (),
    provenance: Mapping[str, str] | None = None,
    declared: Mapping[str, DeclaredScore] | None = None,
) -> EvaluationResult:
    """Score episodes.

    Args:
        episodes: All of them; failed ones are counted and not scored.
        sampling: The sampling settings to state.
        samples: Episodes asked for per task; with several, `pass@<samples>` is scored.
        tools: How the tools describe themselves, to state.
        conditions: What else a reader must know, each stated once; that many tool calls failed is added.
        provenance: What the scores rest on, to state.
        declared: What the recipe's `scores` mean, by name; no other of the records' `scores` is reported.

    Raises:
        ValueError: no episode finished.
    """
    tasks = finished_tasks(episodes)
    if not tasks:
        why = (episodes[0].reason or "no reason given") if episodes else "there were no tasks"
        raise ValueError(f"no episode of the evaluation finished: {why}")
    scored, lost = [episode for task in tasks for episode in task], lost_tasks(episodes)
    metrics = estimates(tasks, scores_of(scored, declared), samples, lost)
    return EvaluationResult(
        n=len(tasks),
        samples=samples,
        metrics=metrics,
        scorers={name: text for name, text in SCORERS.items() if name in metrics},
        sampling=dict(sampling),
        statuses=dict(Counter(episode.status for episode in episodes)),
        asked=len(tasks) + len(lost),
        failures=Failures.among([one.reason for one in episodes if one.failed], len(episodes)),
        tools=dict(tools or {}),
        # Each once: what is scored again has the sentence from the record.
        conditions=tuple(dict.fromkeys([*conditions, *_failing_tools(scored), *_misread(scored)])),
        provenance=dict(provenance or {}),
        breakdowns=breakdowns(tasks, lost),
        declared=dict(declared or {}),
    )


def _failing_tools(episodes: Sequence[EpisodeRecord]) -> list[str]:
    """A sentence if a notable share of the tool calls ended in errors, with the commonest one."""
    calls, errors = sum(one.tool_calls for one in episodes), sum(one.tool_errors for one in episodes)
    if not errors or errors < NOTABLE_TOOL_ERRORS * calls:
        return []
    failures: Counter[str] = sum((Counter(one.tool_failures) for one in episodes), Counter())
    commonest = [f"; {times} of them: {failure}" for failure, times in failures.most_common(1)]
    return [f"{errors} of {calls} tool calls ended in errors{''.join(commonest)}"]


def _misread(episodes: Sequence[EpisodeRecord]) -> list[str]:
    """A sentence if exact matches say something else than what is accepted, with the first one."""
    exact = [one for one in episodes if one.answers and exact_match_score(one.prediction, one.answers)]
    wrong = [one for one in exact if not is_accepted(one.prediction, one.answers)]
    if not wrong:
        return []
    return [
        f"exact_match drops signs, points and articles: {len(wrong)} of its {len(exact)} matches say something else "
        f"than is accepted, such as {wrong[0].prediction!r} for {wrong[0].answers[0]!r}"
    ]


Breakdowns = dict[str, dict[str, dict[str, Estimate]]]
"""Scores by `source`, `hops` or `kind`, then by its value: `["hops"]["2"]["exact_match"]`."""
KEYS = ("source", "hops", "kind")
UNKNOWN = "unknown"
"""The value of tasks that do not say theirs, where others do."""


def breakdowns(tasks: Sequence[Sequence[EpisodeRecord]], lost: Sequence[Sequence[EpisodeRecord]] = ()) -> Breakdowns:
    """The main scores of each part of the tasks; a key that no task has is left out.

    Args:
        tasks: The finished episodes of each task.
        lost: The tasks that have none but failed episodes.
    """
    scores = scores_of([episode for task in tasks for episode in task])
    main = {name: score for name, score in scores.items() if score.main}
    found: Breakdowns = {}
    for key in KEYS:
        if any(getattr(task[0], key) is not None for task in tasks):
            without = _parts(lost, key)
            found[key] = {
                value: estimates(part, main, lost=without.get(value, ())) for value, part in _parts(tasks, key).items()
            }
    return found


def _parts(tasks: Sequence[Sequence[EpisodeRecord]], key: str) -> dict[str, list[Sequence[EpisodeRecord]]]:
    values: list[Any] = [getattr(task[0], key) for task in tasks]
    parts: dict[str, list[Sequence[EpisodeRecord]]] = {}
    for value, task in sorted(zip(values, tasks, strict=True), key=lambda pair: (pair[0] is None, pair[0] or 0)):
        parts.setdefault(UNKNOWN if value is None else str(value), []).append(task)
    return parts


def combine(sets: Mapping[str, EvaluationResult], choosing_set: str | None = None) -> EvaluationResult:
    """Combine the results of several sets.

    Every set has the same weight, however many tasks it has. A score that only some sets have is the mean over those.

    Args:
        sets: The results by set; the result keeps all of them.
        choosing_set: The set that chooses checkpoints; it is in no mean, sum or count.

    Raises:
        ValueError: there is no set to report.
    """
    reported = {name: result for name, result in sets.items() if name != choosing_set}
    if not reported:
        raise ValueError("there is no evaluation set to report; name one besides the set that chooses checkpoints")
    metrics: dict[str, Estimate] = {}
    for name in dict.fromkeys(name for result in reported.values() for name in result.metrics):
        metrics[name] = mean_over_sets([one.metrics[name] for one in reported.values() if name in one.metrics])
    first = next(iter(reported.values()))
    statuses: Counter[str] = sum((Counter(one.statuses) for one in reported.values()), Counter())
    return EvaluationResult(
        n=sum(result.n for result in reported.values()),
        samples=first.samples,
        metrics=metrics,
        scorers={name: text for result in reported.values() for name, text in result.scorers.items()},
        sampling=first.sampling,
        declared=first.declared,
        statuses=dict(statuses),
        asked=sum(result.asked or result.n for result in reported.values()),
        failures=Failures.together((one.failures, sum(one.statuses.values())) for one in reported.values()),
        sets=dict(sets),
        choosing_set=choosing_set,
    )
