"""Measures how much the policy's first actions depend on their prompts, through the learner's role."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_r1_core.health.information import FirstActions, mutual_information, retrieval_accuracy
from agent_r1_core.metrics import declared as metric

if TYPE_CHECKING:
    from agent_r1_core.assembly.roles import LearnerRole
    from agent_r1_core.trajectory import Group


async def information_metrics(learner: LearnerRole, groups: Sequence[Group]) -> dict[str, float]:
    """The metrics of a measurement; none if fewer than two groups have prompts of their own."""
    begun, chosen = time.perf_counter(), FirstActions.of(groups)
    if chosen is None:
        return {}
    logprobs = await learner.score(chosen.prompts, chosen.actions)
    return {
        metric.INFORMATION: mutual_information(logprobs, chosen.own),
        metric.RETRIEVAL: retrieval_accuracy(logprobs, chosen.own),
        metric.TIME_HEALTH: time.perf_counter() - begun,
    }
