"""Declares the algorithm `sft`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    return [
        AlgorithmSpec(
            "sft",
            "agent_r1_sft.sft:SFT",
            "Supervised fine-tuning: the actions of the tasks' demonstrations become likelier, without rewards",
        )
    ]
