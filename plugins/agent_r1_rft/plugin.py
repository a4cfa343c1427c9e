"""Declares the algorithm `rft`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    return [
        AlgorithmSpec(
            "rft",
            "agent_r1_rft.rft:RFT",
            "Rejection-sampling fine-tuning: the actions of the policy's own successful episodes become likelier",
        )
    ]
