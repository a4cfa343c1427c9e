"""Declares the rewards `judge` and `judge_comparison`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import RewardSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_rewards() -> Iterable[RewardSpec]:
    return [
        RewardSpec(
            "judge",
            "agent_r1_judges.rubric:Judge",
            "A model grades each answer by weighted criteria; any OpenAI-compatible address",
        ),
        RewardSpec(
            "judge_comparison",
            "agent_r1_judges.comparison:JudgeComparison",
            "A model ranks the answers of a group, in training; any OpenAI-compatible address",
        ),
    ]
