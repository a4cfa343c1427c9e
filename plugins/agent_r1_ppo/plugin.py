"""Declares the algorithm `ppo` and its variant `turn_gae`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, Preset, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    """The one algorithm of this plugin, and its variant with credit per turn."""
    return [
        AlgorithmSpec(
            "ppo",
            "agent_r1_ppo.ppo:PPO",
            "Proximal policy optimisation: a critic, GAE over actions",
            presets=(
                Preset(
                    "turn_gae",
                    {"gae": "turn", "gamma_turn": 0.95},
                    "PPO with bi-level GAE: over turns, then within each",
                ),
            ),
        )
    ]
