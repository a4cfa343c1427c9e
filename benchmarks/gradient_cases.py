"""The algorithms of gradients.py, each with TRL's options for the same formulas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SIZE, HORIZON = 4, 64
PASSES = ("first", "second")
CONVERSATIONS = "conversations"
"""The batch that a file holds (demonstrations.py); the others are random ids."""


@dataclass(frozen=True)
class Case:
    """An algorithm of ours, and TRL's options for the same formulas."""

    title: str
    algorithm: dict[str, Any]
    config: dict[str, Any]
    trainer: str = "GRPOTrainer"
    batch: str = "tools"
    dtype: str = "float64"
    markers: str = "actions"
    """SFTTrainer: what its template marks for the loss, the `actions` alone, or what `TRL` itself marks."""
    comparable: tuple[str, ...] = field(default=PASSES, compare=False)
    """The passes whose formulas are the same."""


SFT = {"name": "sft", "aggregation": "token_mean"}
CASES = (
    Case("GRPO", {"name": "grpo", "eps": 1e-4}, {"loss_type": "grpo"}),
    Case(
        "GRPO with KL",
        {"name": "grpo", "eps": 1e-4, "kl_coef": 0.1, "kl_correction": True},
        {"loss_type": "grpo", "beta": 0.1, "use_bias_correction_kl": True},
    ),
    Case(
        "Dr. GRPO",
        {"name": "dr_grpo", "horizon": HORIZON},
        {"loss_type": "dr_grpo", "scale_rewards": "none", "max_completion_length": HORIZON},
    ),
    Case(
        "DAPO",
        {"name": "dapo", "eps": 1e-4, "filter": "none"},
        {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28},
    ),
    Case(
        "GSPO",
        {"name": "gspo", "eps": 1e-4},
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
    ),
    Case(
        "CISPO",
        {"name": "cispo", "eps": 1e-4, "clip_high": 0.28},
        {"loss_type": "cispo", "epsilon_high": 1.28},
    ),
    Case("RLOO", {"name": "rloo"}, {}, "RLOOTrainer", "plain", comparable=("first",)),
    Case(
        "RLOO (GRPOTrainer)",
        {"name": "rloo"},
        {"loss_type": "luspo", "scale_rewards": "none", "reward_weights": [SIZE / (SIZE - 1)]},
    ),
    Case("SFT", SFT, {}, "SFTTrainer", CONVERSATIONS),
    Case("SFT, TRL's markers", SFT, {}, "SFTTrainer", CONVERSATIONS, markers="TRL", comparable=()),
)
