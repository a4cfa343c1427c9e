"""Declares the algorithm `distillation`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    return [
        AlgorithmSpec(
            "distillation",
            "agent_r1_distillation.distillation:Distillation",
            "On-policy distillation: each sampled token becomes as likely as a teacher finds it, without rewards",
        )
    ]
