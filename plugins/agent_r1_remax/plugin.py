"""Declares the algorithm `remax`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    return [
        AlgorithmSpec(
            "remax",
            "agent_r1_remax.remax:ReMax",
            "ReMax: each task is also played greedily, with tools, and that return is the baseline",
        )
    ]
