"""Declares the algorithm `gigpo`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    return [
        AlgorithmSpec(
            "gigpo",
            "agent_r1_gigpo.gigpo:GiGPO",
            "Group-in-group policy optimisation: GRPO, and actions compared that were taken in the same state",
        )
    ]
