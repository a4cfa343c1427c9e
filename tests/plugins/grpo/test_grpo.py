"""GRPO and its relatives: the contract under options and presets."""

from __future__ import annotations

from agent_r1_grpo.grpo import GRPO
from agent_r1_grpo.plugin import PRESETS

from agent_r1_core.testing import AlgorithmContract

OPTIONS = {preset.name: dict(preset.config) for preset in PRESETS}


class TestGRPO(AlgorithmContract):
    component = GRPO
    variants = (
        {},
        {"loss_mask": False},
        {"entropy_coef": 0.01},
        {"kl_coef": 0.01, "aggregation": "token_mean"},
        {"kl_coef": 0.01, "kl_correction": True},
        *(OPTIONS["dr_grpo"], OPTIONS["rloo"], OPTIONS["cispo"]),
        OPTIONS["gspo"] | {"clip_low": 0.2, "clip_high": 0.2},
    )
