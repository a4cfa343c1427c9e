"""EvaluationResult: scores of a policy with their scorers, n, intervals and sampling settings (LAW 12).

Failed episodes are the infrastructure's fault: they are counted but not scored (LAW 5). An episode that ran out of
budget is scored; it has no answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from agent_r1_core.evaluation.intervals import Estimate, estimate, pass_at_k
from agent_r1_core.evaluation.scorers import SCORERS, exact_match_score, f1_score
from agent_r1_core.metrics import declared as metric
from agent_r1_core.trajectory import EndStatus, Group, Trajectory

Score = Callable[[Trajectory], float | None]
"""The score of an episode; None if it has none."""
_FINISHED = (EndStatus.TERMINATED, EndStatus.TRUNCATED)


@dataclass(frozen=True)
class EvaluationResult:
    """The result of an evaluation."""

    n: int
    """Tasks that were scored."""
    samples: int
    """Episodes asked for per task."""
    metrics: dict[str, Estimate]
    """By name: `exact_match` and `f1` (for tasks with answers), `success` (if the environment reports it), `pass@k`,
    `reward/<name>` (unweighted; a process reward summed over turns), `reward/mean` (the return),
    `status/<end status>`, `answered`, and per episode `turns`, `tokens`, `action_tokens`."""
    scorers: dict[str, str]
    """What `exact_match` and `f1` mean."""
    sampling: dict[str, Any]
    """How actions were sampled: greedy or not, temperature, budgets, seed."""
    statuses: dict[str, int]
    """Episodes by end status."""
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    """How each tool describes itself: a search tool names its corpus and the number of passages."""
    conditions: tuple[str, ...] = ()
    """What else a reader must know: a baseline, silenced tools, a checkpoint that these same tasks chose."""
    sets: dict[str, EvaluationResult] = field(default_factory=dict)
    """The results by set if there are several; the other fields are then means and sums over the sets."""
    choosing_set: str | None = None
    """The set that chooses checkpoints; it is in no mean."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, for `evaluations/*.json` and `--json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvaluationResult:
        """The result that `to_json` wrote; other keys are ignored."""
        plain = {name: data[name] for name in cls.__dataclass_fields__}
        return cls(
            **plain
            | {
                "metrics": {name: Estimate(**value) for name, value in data["metrics"].items()},
                "conditions": tuple(data["conditions"]),
                "sets": {name: cls.from_json(result) for name, result in data["sets"].items()},
            }
        )

    def to_metrics(self, prefix: str = metric.EVALUATION) -> dict[str, float]:
        """The means, for `metrics.jsonl` and trackers; `exact_match` also with `_low` and `_high`. Those of each set
        follow under `<prefix><set>/`."""
        flat = {f"{prefix}{name}": value.mean for name, value in self.metrics.items()}
        flat[f"{prefix}{metric.N}"] = float(self.n)
        exact = self.metrics.get(metric.EXACT_MATCH)
        if exact is not None and exact.low is not None and exact.high is not None:
            flat |= {f"{prefix}{metric.EXACT_MATCH_LOW}": exact.low, f"{prefix}{metric.EXACT_MATCH_HIGH}": exact.high}
        for name, result in self.sets.items():
            flat |= result.to_metrics(f"{prefix}{name}/")
        return flat

    def rows(self, label: str = "") -> list[tuple[str, str, str, str, str]]:
        """Table rows: metric, mean, 95 % interval, method, n. Those of a set follow, as `<set>/<metric>`."""
        rows = [
            (
                f"{label}{name}",
                f"{value.mean:.3f}",
                "" if value.low is None else f"[{value.low:.3f}, {value.high:.3f}]",
                value.method,
                str(value.n),
            )
            for name, value in self.metrics.items()
        ]
        return rows + [row for name, result in self.sets.items() for row in result.rows(f"{name}/")]

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
        failed = self.statuses.get(EndStatus.FAILED.value, 0)
        unscored = f", failed and not scored: {failed}" if failed else ""
        sets = [f"{label} {result.metrics[name]}" for label, result in self.sets.items() if name in result.metrics]
        by_set = f": {', '.join(sets)}" if sets else ""
        return f"{name} {value} (95 %, {value.method}, n = {value.n}, {how}{unscored}){by_set}"


def report(
    groups: Sequence[Group],
    *,
    sampling: Mapping[str, Any],
    samples: int = 1,
    dropped: Sequence[Trajectory] = (),
    tools: Mapping[str, dict[str, Any]] | None = None,
    conditions: Sequence[str] = (),
) -> EvaluationResult:
    """Score finished episodes.

    Args:
        groups: The trajectories of each task.
        sampling: The sampling settings to state.
        samples: Episodes asked for per task.
        dropped: Episodes that failed permanently and are not in the groups.
        tools: How the tools describe themselves, to state.
        conditions: What else a reader must know.

    Raises:
        ValueError: no episode finished.
    """
    everything = [trajectory for group in groups for trajectory in group.trajectories] + list(dropped)
    tasks = [[t for t in group.trajectories if t.status is not EndStatus.FAILED] for group in groups]
    tasks = [trajectories for trajectories in tasks if trajectories]
    if not tasks:
        raise ValueError(f"no episode of the evaluation finished: {_why(everything)}")
    metrics: dict[str, Estimate] = {}
    for name, (score, proportion) in _scores(tasks).items():
        values = [[value for t in task if (value := score(t)) is not None] for task in tasks]
        values = [task for task in values if task]
        if values:
            metrics[name] = estimate(values, _shares(values) if proportion is None else proportion)
            if name == metric.EXACT_MATCH and samples > 1:
                metrics |= _pass_at(values, samples)
    return EvaluationResult(
        n=len(tasks),
        samples=samples,
        metrics=metrics,
        scorers={name: text for name, text in SCORERS.items() if name in metrics},
        sampling=dict(sampling),
        statuses=dict(Counter(trajectory.status.value for trajectory in everything)),
        tools=dict(tools or {}),
        conditions=tuple(conditions),
    )


def _scores(tasks: Sequence[Sequence[Trajectory]]) -> dict[str, tuple[Score, bool | None]]:
    """Every score, and whether it is a share; None: decided by its values."""
    episodes = [trajectory for task in tasks for trajectory in task]
    outcome = {name for trajectory in episodes for name in trajectory.rewards}
    process = {name for trajectory in episodes for turn in trajectory.turns for name in turn.rewards}
    scores: dict[str, tuple[Score, bool | None]] = {
        metric.EXACT_MATCH: (lambda t: exact_match_score(t.answer, t.task.answers) if t.task.answers else None, True),
        metric.F1: (lambda t: f1_score(t.answer, t.task.answers) if t.task.answers else None, False),
        metric.SUCCESS: (lambda t: None if t.success is None else float(t.success), True),
        metric.REWARD_MEAN: (lambda t: t.total_reward, False),
    }
    scores |= {metric.REWARD.of(name): (_process_reward(name), False) for name in sorted(process)}
    scores |= {metric.REWARD.of(name): (_outcome_reward(name), None) for name in sorted(outcome)}
    scores |= {metric.STATUS.of(status.value): (_ended(status), True) for status in _FINISHED}
    return scores | {
        metric.ANSWERED: (lambda t: float(t.answer is not None), True),
        metric.TURNS: (lambda t: float(len(t.steps)), False),
        metric.TOKENS: (lambda t: float(t.tokens), False),
        metric.ACTION_TOKENS: (lambda t: float(t.action_tokens), False),
    }


def _outcome_reward(name: str) -> Score:
    return lambda trajectory: trajectory.rewards.get(name)


def _process_reward(name: str) -> Score:
    """The sum over the episode's turns."""
    return lambda trajectory: sum(turn.rewards.get(name, 0.0) for turn in trajectory.turns)


def _ended(status: EndStatus) -> Score:
    return lambda trajectory: float(trajectory.status is status)


def _shares(values: Sequence[Sequence[float]]) -> bool:
    return all(value in (0.0, 1.0) for task in values for value in task)


def _pass_at(values: Sequence[Sequence[float]], samples: int) -> dict[str, Estimate]:
    """pass@k for k = samples, over the tasks none of whose episodes failed."""
    whole = [task for task in values if len(task) >= samples]
    scores = [[pass_at_k(len(task), round(sum(task)), samples)] for task in whole]
    return {metric.PASS_AT.of(str(samples)): estimate(scores, proportion=True)} if scores else {}


def _why(failed: Sequence[Trajectory]) -> str:
    return failed[0].reason or "no reason given" if failed else "there were no tasks"
