"""Declares the algorithm `ppo` and its variants `turn_gae` and `starpo_s`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, Preset, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    """The one algorithm of this plugin, with its variants."""
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
                Preset(
                    "starpo_s",
                    {"filter": "top_share", "filter_share": 0.25, "clip_low": 0.2, "clip_high": 0.28},
                    "StarPO-S with PPO's advantages: the groups of the most spread, a wider upper clip, no KL",
                ),
            ),
        )
    ]
