"""Declares the task source and the reward `reasoning_gym`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import RewardSpec, TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [TaskSpec("reasoning_gym", "agent_r1_reasoning_gym.source:ReasoningGym", "Any data set of reasoning-gym")]


@hookimpl
def register_rewards() -> Iterable[RewardSpec]:
    return [
        RewardSpec(
            "reasoning_gym",
            "agent_r1_reasoning_gym.reward:ReasoningGymScore",
            "1 when reasoning-gym's scorer accepts the answer to a task of the source `reasoning_gym`",
        )
    ]
