"""Declares the algorithm `reinforce_pp`, also called `reinforce++`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, Preset, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    return [
        AlgorithmSpec(
            "reinforce_pp",
            "agent_r1_reinforce_pp.reinforce_pp:ReinforcePP",
            "REINFORCE++: returns to go, whitened over the batch, no critic",
            aliases=("reinforce++",),
            presets=(
                Preset("reinforce_pp_baseline", {"baseline": True}, "REINFORCE++ with the group's mean as baseline"),
            ),
        )
    ]
