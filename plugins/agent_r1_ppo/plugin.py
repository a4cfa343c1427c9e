"""Declares the algorithm `ppo`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    """The one algorithm of this plugin."""
    return [AlgorithmSpec("ppo", "agent_r1_ppo.ppo:PPO", "Proximal policy optimisation: a critic, GAE over actions")]
