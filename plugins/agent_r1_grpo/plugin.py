"""Declares the algorithm `grpo` and its relatives."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, Preset, hookimpl

AGENT_R1_PLUGIN_API = 1

PRESETS = (
    Preset(
        "starpo",
        {"aggregation": "sequence_mean"},
        "StarPO with GRPO's advantages: one objective over the whole trajectory, which is GRPO as it is here",
    ),
    Preset(
        "dr_grpo",
        {"normalise_std": False, "aggregation": "constant"},
        "GRPO without the division by the group's std, token sum over a constant horizon",
    ),
    Preset(
        "dapo",
        {"clip_low": 0.2, "clip_high": 0.28, "aggregation": "token_mean", "filter": "resample"},
        "GRPO with a wider upper clip, token mean, groups without spread replaced by further tasks",
    ),
    Preset(
        "rloo",
        {"baseline": "leave_one_out", "aggregation": "sequence_sum"},
        "leave-one-out baseline with a clipped surrogate",
    ),
    Preset(
        "gspo",
        {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4},
        "GRPO with one ratio per trajectory",
    ),
    Preset(
        "cispo",
        {"objective": "cispo", "aggregation": "token_mean", "clip_low": 1.0, "clip_high": 4.0},
        "GRPO with importance weights of at most 5 instead of a clipped surrogate",
    ),
    Preset(
        "maxrl",
        {"normalise_mean": True},
        "GRPO with the division by the group's mean: the rarer success is, the more each counts",
    ),
    Preset(
        "gdpo",
        {"decouple_rewards": True},
        "GRPO of each reward by itself, added by their weights and whitened over the batch",
    ),
    Preset(
        "tree_grpo",
        {"trees": 2},
        "GRPO whose episodes branch off from others of their group, and are compared within their tree, too",
    ),
)


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    """The one algorithm of this plugin, under several names."""
    return [AlgorithmSpec("grpo", "agent_r1_grpo.grpo:GRPO", "Group-relative policy optimisation", presets=PRESETS)]
