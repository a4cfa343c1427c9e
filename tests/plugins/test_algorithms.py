"""What each algorithm that may weigh a KL needs and credits, and which of its options are idle, under its options."""

from __future__ import annotations

from typing import Any

import pytest
from agent_r1_grpo.plugin import PRESETS
from pydantic import ValidationError

from agent_r1_core.errors import ConfigError
from agent_r1_core.plugins import Registry
from agent_r1_core.testing import tiny_batch

REGISTRY = Registry.discover()
KL = {"kl_coef": 0.1}
K2 = {"kl_estimator": "k2"}
BASELINE = {"baseline": True}
MASKS = "advantage_mask loss_mask"


@pytest.mark.parametrize(
    ("name", "options", "said", "idle"),
    [
        ("grpo", {}, "samples", "kl_estimator kl_correction"),
        ("grpo", KL, "reference every samples", ""),
        ("grpo", KL | {"aggregation": "constant"}, "reference every samples", "not horizon"),
        ("cispo", {}, "samples", "kl_estimator kl_correction dual_clip"),
        ("grpo", {"objective": "dppo"}, "samples", "kl_estimator kl_correction dual_clip ratio"),
        ("rloo", {}, "samples", "kl_estimator kl_correction normalise_std normalise_mean eps"),
        ("maxrl", {}, "samples", "kl_estimator kl_correction normalise_std eps"),
        ("gdpo", {"observation_coef": 0.1}, "every samples", "kl_estimator kl_correction"),
        ("distillation", {"teacher": "tiny"}, "reference every old", "loss_mask"),
        ("sdar", {}, "old samples", "loss_mask"),
        ("gigpo", {}, "turns samples", "kl_estimator"),
        ("gigpo", {"omega": 0.0, "normalise_std": False}, "samples", "kl_estimator gamma_turn eps"),
        ("remax", {}, "greedy turns", "kl_estimator"),
        ("remax", KL, "reference old greedy turns", ""),
        ("ppo", {}, "critic every turns", "kl_in kl_estimator lam_turn loss_mask"),
        ("ppo", KL, "critic reference every old turns", "lam_turn loss_mask"),
        ("ppo", KL | {"kl_in": "loss"}, "critic reference every turns", "lam_turn loss_mask"),
        ("ppo", {"advantage_mask": False}, "critic every turns", "kl_in kl_estimator lam_turn"),
        ("ppo", {"lam_length": 0.05}, "critic every turns trusts", "kl_in kl_estimator lam lam_turn loss_mask"),
        ("ppo", {"lam": 0.9}, "critic every turns trusts", "kl_in kl_estimator lam_turn loss_mask"),
        ("turn_gae", {"lam_turn": 0.9}, "critic every turns trusts", f"kl_in kl_estimator lam_length {MASKS}"),
        ("turn_gae", {}, "critic every turns", f"kl_in kl_estimator lam_length {MASKS}"),
        ("reinforce_pp", {}, "turns", "kl_estimator"),
        ("reinforce_pp", KL | {"kl_estimator": "k1"}, "reference old turns", ""),
        ("reinforce_pp", BASELINE | KL, "reference every samples", "gamma gamma_turn process_scale"),
    ],
)
def test_what_it_needs_and_credits_and_what_is_idle(name: str, options: dict[str, Any], said: str, idle: str) -> None:
    algorithm = REGISTRY.create("algorithm", {"name": name, **options})
    asked = {
        "every": algorithm.needs_every_trajectory(),
        "old": algorithm.needs_old_logprobs(),
        "greedy": algorithm.needs_greedy_baseline(),
        "turns": algorithm.credits_turns(),
        "samples": algorithm.compares_samples(),
        "trusts": algorithm.trusts_critic(),
    }
    assert {*algorithm.roles(), *(what for what, needed in asked.items() if needed)} == {"policy", *said.split()}
    reasons = type(algorithm).idle_options(algorithm.config)
    always = {"filter_share", "filter_p", "entropy_step"} | ({"horizon"} if idle != "not horizon" else set())
    assert set(reasons) == always | set(idle.removeprefix("not horizon").split())
    named = (*type(algorithm.config).model_fields, "standard deviation")
    assert all(any(option in why for option in named) for why in reasons.values()), reasons


def test_no_preset_of_grpo_sets_an_option_that_is_idle_in_it() -> None:
    for preset in PRESETS:
        algorithm = REGISTRY.create("algorithm", preset.name)
        assert not set(type(algorithm).idle_options(algorithm.config)) & set(preset.config), preset.name


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("grpo", {}, "'k2' or 'k3'"),
        ("reinforce_pp", BASELINE, "with baseline the KL is a loss, .*; choose k2 or k3"),
        ("ppo", {"kl_in": "loss"}, "kl_in is loss, .*; choose k2 or k3"),
    ],
)
def test_a_k1_loss_is_not_to_be_had(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ValidationError, ConfigError), match=sentence):
        REGISTRY.create("algorithm", {"name": name, **KL, **options, "kl_estimator": "k1"})


@pytest.mark.parametrize(
    ("name", "options"),
    [("ppo", KL | K2), ("reinforce_pp", {}), ("reinforce_pp", KL | K2), ("remax", KL | K2)],
)
def test_the_kl_that_is_taken_from_the_reward_is_logged_as_it_is_estimated(name: str, options: dict[str, Any]) -> None:
    """Over the tokens of actions."""
    batch, algorithm = tiny_batch(), REGISTRY.create("algorithm", {"name": name, **options})
    gaps = (batch.old_logprobs - batch.reference_logprobs)[batch.action_mask]
    logged = algorithm.advantages(batch).metrics
    estimated = gaps**2 / 2 if "kl_estimator" in options else gaps
    assert logged["kl_reference"] == pytest.approx(float(estimated.mean()), abs=1e-6)
    batch.old_logprobs = None
    unweighed = REGISTRY.create("algorithm", name).advantages(batch).metrics
    assert unweighed.keys() == logged.keys() - {"kl_reference"}
