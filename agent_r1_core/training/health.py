"""Watches a run for collapse: the spread of returns within groups, and steps that teach nothing.

Early stopping (`health.early_stop`) follows the early signs of RAGEN's Echo Trap (arXiv 2504.20073): a standard
deviation within groups below a tenth of its initial mean for ten steps, or five steps without a trajectory to train on.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_r1_core.metrics import declared as metric

_NO_SPREAD = 1e-9
_FIRST = 3
_PATIENCE = 10
_EMPTY = 5


@dataclass
class HealthMonitor:
    """Judges the metrics of each step."""

    early_stop: bool
    history: list[float] = field(default_factory=list)
    flat: int = 0
    empty: int = 0
    bootstraps_told: bool = False

    def judge(self, metrics: Mapping[str, float]) -> tuple[list[str], str | None]:
        """Warnings for this step, and the reason to stop if early stopping is on and there is one."""
        warnings = []
        if metrics.get(metric.GROUPS_WITHOUT_SPREAD) == 1.0:
            warnings.append("no group has any spread of rewards: with group baselines this step teaches nothing")
        elif metrics.get(metric.RETURN_STD, 1.0) < _NO_SPREAD:
            warnings.append("all episodes have the same return: this step cannot tell good actions from bad ones")
        if metrics.get(metric.UPDATE_TRAJECTORIES, 1.0) == 0:
            warnings.append("there was nothing to train on: every group was filtered out or failed")
        if metrics.get(metric.PROB_GAP, 0.0) > 0.01:
            warnings.append(
                f"engine and learner disagree by {metrics[metric.PROB_GAP]:.4f} in mean probability "
                "(healthy: below .005)"
            )
        if metrics.get(metric.ROLLOUT_MIXED_GROUPS, 0.0) > 0:
            warnings.append(
                f"{metrics[metric.ROLLOUT_MIXED_GROUPS]:.0f} groups mix episodes of several versions of the policy, "
                "which a group baseline must not compare"
            )
        if metrics.get(metric.UPDATE_SKIPPED_NONFINITE, 0.0) > 0:
            warnings.append("a gradient was not finite: that update was skipped")
        if not self.bootstraps_told and metrics.get(metric.UPDATE_BOOTSTRAPPED_WITHOUT_CRITIC, 0.0) > 0:
            warnings.append(
                "an outer limit cut episodes, and without a critic the algorithm treats them as complete "
                f"({metric.UPDATE_BOOTSTRAPPED_WITHOUT_CRITIC} counts them)"
            )
        reason = self._reason(metrics)
        return warnings, reason if self.early_stop else None

    def _reason(self, metrics: Mapping[str, float]) -> str | None:
        self.bootstraps_told |= metrics.get(metric.UPDATE_BOOTSTRAPPED_WITHOUT_CRITIC, 0.0) > 0
        spread = metrics.get(metric.GROUP_STD)
        if spread is not None:
            self.history.append(spread)
            first = statistics.fmean(self.history[:_FIRST])
            self.flat = self.flat + 1 if len(self.history) > _FIRST and spread < 0.1 * first else 0
        self.empty = self.empty + 1 if metrics.get(metric.UPDATE_TRAJECTORIES, 1.0) == 0 else 0
        if self.flat >= _PATIENCE:
            return f"the spread of returns within groups stayed below a tenth of its initial mean for {_PATIENCE} steps"
        if self.empty >= _EMPTY:
            return f"{_EMPTY} steps in a row had no trajectory to train on"
        return None

    def replay(self, lines: Sequence[Mapping[str, float]]) -> None:
        """Rebuild the state from the metrics of a resumed run."""
        for line in lines:
            self._reason(line)
