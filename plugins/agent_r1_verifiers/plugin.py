"""Declares the task source and the reward `verifiers`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import RewardSpec, TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [TaskSpec("verifiers", "agent_r1_verifiers.source:VerifiersTasks", "A task set of verifiers (v1)")]


@hookimpl
def register_rewards() -> Iterable[RewardSpec]:
    return [RewardSpec("verifiers", "agent_r1_verifiers.reward:VerifiersReward", "What a verifiers task set pays")]
