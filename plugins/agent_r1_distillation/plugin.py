"""Declares the algorithm `distillation`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, Preset, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    return [
        AlgorithmSpec(
            "distillation",
            "agent_r1_distillation.distillation:Distillation",
            "On-policy distillation: each sampled token becomes as likely as a teacher finds it, without rewards",
            presets=(
                Preset(
                    "sdar",
                    {"hint": "The answer is {answers}.", "gate": 5.0, "teacher_coef": 0.01, "reward_coef": 1.0},
                    "GRPO, and a little of what the policy itself finds likely when it knows the answer",
                ),
            ),
        )
    ]
