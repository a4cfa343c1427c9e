"""The algorithms that the laws are tested with: every registered one with its presets, and some of their options.

A new algorithm, or preset, is under the laws by being registered.
"""

from __future__ import annotations

from typing import Any

from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.plugins import Registry

REGISTRY = Registry.discover()
NAMES = [record.name for record in REGISTRY.components("algorithm") if record.alias_of is None]
VARIANTS: dict[str, dict[str, Any]] = {
    "grpo_without_eps": {"name": "grpo", "eps": 0.0},
    "grpo_kl": {"name": "grpo", "kl_coef": 0.1},
    "grpo_kl_corrected": {"name": "grpo", "kl_coef": 0.1, "kl_correction": True},
    "grpo_entropy": {"name": "grpo", "entropy_coef": 0.1},
    "grpo_dppo": {"name": "grpo", "objective": "dppo", "clip_low": 3e-4, "clip_high": 5e-4},
    "grpo_observations": {"name": "grpo", "observation_coef": 0.1},
    "gigpo_kl": {"name": "gigpo", "kl_coef": 0.1, "normalise_std": False},
    "ppo_discounted": {"name": "ppo", "gamma": 0.95, "lam": 0.9},
    "ppo_kl": {"name": "ppo", "kl_coef": 0.1},
    "ppo_lambdas": {"name": "ppo", "lam_critic": 1.0, "lam_length": 0.2, "whiten": "scale"},
    "ppo_entropy_no_masks": {"name": "ppo", "entropy_coef": 0.1, "advantage_mask": False, "loss_mask": False},
    "ppo_no_masks": {"name": "ppo", "advantage_mask": False, "loss_mask": False},
    "ppo_turns": {"name": "ppo", "gamma_turn": 0.9, "process_scale": 0.5, "kl_coef": 0.1},
    "turn_gae_kl": {"name": "turn_gae", "kl_coef": 0.1, "gamma": 0.9, "lam": 0.8, "lam_turn": 0.7},
    "reinforce_pp_discounted": {"name": "reinforce_pp", "gamma": 0.95},
    "reinforce_pp_turns": {"name": "reinforce_pp", "gamma_turn": 0.9, "process_scale": 0.5},
    **{f"{name}_kl": {"name": name, "kl_coef": 0.1} for name in ("reinforce_pp", "reinforce_pp_baseline", "remax")},
    "reinforce_pp_entropy": {"name": "reinforce_pp", "entropy_coef": 0.1},
}
"""Options that change how a gradient comes about."""


def make(block: str | dict[str, Any]) -> Algorithm:
    """An algorithm by its name, or by name and options."""
    algorithm: Algorithm = REGISTRY.create("algorithm", block)
    return algorithm


def block_of(name: str) -> dict[str, Any]:
    """Name and options of one of the algorithms."""
    return dict(VARIANTS.get(name, {"name": name}))


ALGORITHMS: dict[str, Algorithm] = {name: make(block_of(name)) for name in (*NAMES, *VARIANTS)}
MASKED = {
    name: one
    for name, one in ALGORITHMS.items()
    if one.config.loss_mask and getattr(one.config, "advantage_mask", True)
}
"""Those that credit action tokens only; the others are ablations."""
REWARDED = [name for name, algorithm in ALGORITHMS.items() if algorithm.needs_spread()]
"""Those that credit an action by its rewards, and do not imitate whole episodes."""
COMPARING = {name: one for name, one in ALGORITHMS.items() if one.compares_samples() and one.hint() is None}
"""Those whose advantages compare the episodes of a group, and are nothing else."""
