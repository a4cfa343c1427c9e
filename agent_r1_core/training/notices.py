"""What a trainer passes on of its steps: to trackers, and to the listener what gives cause for a note, once.

A tracker's exception is reported once and never stops training (LAW 9).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.tracker import RunInfo, Tracker
from agent_r1_core.errors import AgentR1Error, EpisodeError
from agent_r1_core.evaluation.report import NOTABLE_TOOL_ERRORS
from agent_r1_core.metrics.catalogue import Catalogue

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.evaluation.listener import Listener
    from agent_r1_core.rollout import RolloutResult
    from agent_r1_core.trajectory import Trajectory

_MOST_CAUSES = 3
"""Causes of failed episodes that a note names."""


@dataclass
class Trackers:
    """Forwards every call to each tracker that still works."""

    trackers: Sequence[Tracker]
    report: Callable[[str], None]
    broken: set[int] = field(default_factory=set)

    def open(self, run: RunInfo) -> None:
        """Start or continue a run.

        Raises:
            AgentR1Error: a tracker reports that it cannot be used here, for example because a package is missing.
        """
        self._each("open", run, expected=AgentR1Error)

    def log(self, step: int, metrics: Mapping[str, float], shown: Sequence[Trajectory]) -> None:
        self._each("log", step, metrics)
        if shown:
            self._each("log_trajectories", step, shown)

    def close(self) -> None:
        self._each("close")

    def _each(self, method: str, *arguments: Any, expected: type[Exception] | tuple[()] = ()) -> None:
        for index, tracker in enumerate(self.trackers):
            if index in self.broken:
                continue
            try:
                getattr(tracker, method)(*arguments)
            except expected:
                raise
            except Exception as error:
                self.broken.add(index)
                self.report(
                    f"tracker {tracker.name} failed in {method} ({type(error).__name__}: {error}) and is not used "
                    f"any more; metrics.jsonl has everything"
                )


class StepNotes:
    """Tells a listener of failed episodes, of warnings of the algorithm and of metrics that nobody declares."""

    def __init__(self, listener: Listener, catalogue: Catalogue) -> None:
        self._listener = listener
        self._catalogue = catalogue
        self._told: set[str] = set()
        """Warnings that were passed on."""
        self._demonstrations_told = False

    def failures(self, step: int, rollout: RolloutResult, played_before: bool) -> None:
        """Tell of episodes that failed at every attempt.

        Args:
            played_before: whether the step before had episodes that did not fail.

        Raises:
            EpisodeError: all episodes failed, and those of the step before did too, or there was none.
        """
        if not rollout.dropped:
            return
        failed, causes = len(rollout.dropped), causes_of(rollout.dropped)
        if not rollout.groups and not played_before:
            raise EpisodeError(f"step {step}: all {failed} episodes failed at every attempt: {causes}")
        total = failed + len(rollout.episodes) + sum(not one.player for one in rollout.baselines)
        self._listener.note(f"step {step}: {failed} of {total} episodes failed permanently and are left out: {causes}")

    def demonstrations(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Tell, once, that a notable share of the tool calls of demonstrations ended in errors."""
        calls = [call for one in trajectories if one.demonstrated for turn in one.turns for call in turn.calls]
        errors = Counter(f"{call.name}: {call.error}" for call in calls if call.error is not None)
        if self._demonstrations_told or not errors or errors.total() < NOTABLE_TOOL_ERRORS * len(calls):
            return
        self._demonstrations_told = True
        self._listener.note(
            f"step {step}: {errors.total()} of {len(calls)} tool calls of the demonstrations ended in errors, such as "
            f"{errors.most_common(1)[0][0]:.160}; the policy learns such calls: mend the file, or the recipe's tools"
        )

    def warnings(self, step: int, warnings: Sequence[str]) -> None:
        for warning in warnings:
            if warning not in self._told:
                self._listener.note(f"step {step}: {warning}")
                self._told.add(warning)

    def undeclared(self, metrics: Mapping[str, float]) -> None:
        """Name the metrics that no component declares."""
        names = self._catalogue.undeclared(metrics)
        if names:
            self._listener.note(
                f"the metrics {', '.join(names)} are reported but not declared; declare each as a Metric, with its "
                "meaning, in `metrics` of the component that reports it"
            )


def causes_of(failed: Sequence[Trajectory]) -> str:
    """Why these episodes failed: the first reason of each cause, the commonest first. Reasons that name different
    episodes alone are one cause."""
    causes: dict[str, list[str]] = {}
    for one in failed:
        episode = rf"(?<![\w.])(\w+/)?{re.escape(one.task.id)}(/[\w-]+)*(?![\w.])"
        causes.setdefault(re.sub(episode, "", one.reason), []).append(one.reason)
    if len(causes) == 1:
        return failed[0].reason
    commonest = sorted(causes.values(), key=len, reverse=True)
    told = [f"{len(reasons)} episode{'s' * (len(reasons) > 1)}: {reasons[0]}" for reasons in commonest[:_MOST_CAUSES]]
    more = len(causes) - len(told)
    return " | ".join([*told, *([f"and {more} more cause{'s' * (more > 1)}"] if more else [])])


def catalogue_of(resolved: ResolvedConfig) -> Catalogue:
    """The catalogue of a run with this configuration."""
    config = resolved.config
    blocks = [("algorithm", config.algorithm), ("env", config.env), *(("tool", block) for block in config.tools)]
    blocks += [*(("reward", block) for block in config.rewards), *(("score", block) for block in config.scores)]
    components = [(kind, resolved.registry.load(kind, block.name)) for kind, block in blocks]
    return Catalogue.with_components((kind, loaded.record.canonical, loaded.cls) for kind, loaded in components)
