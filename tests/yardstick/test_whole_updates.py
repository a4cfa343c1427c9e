"""Whole updates of the learner against formulas in float64, for every registered algorithm and each of its options.

The learner computes in float32, where the same sum in another order differs by some 1e-6; the gradients of these small
models differ by 5e-6 at most. AdamW turns a gradient that is nothing but rounding into a step as long as any other, so
weights at the end agree less closely, to 2e-4 of the way that they went. Both bounds leave a factor of two, or more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import hard_rollouts
import pytest
import torch
from plain_algorithms import REFERENCES, plain
from plain_learner import SETTINGS, Network, PlainLearner
from plain_model import in_float64, logprobs
from real_learner import Trained, algorithms, learn, models, relative_error, settings, shape

from agent_r1_core.testing import tiny_model
from agent_r1_core.trajectory import Group

GRADIENT_BOUND = 1e-5
BOUNDS = {"distillation": 1e-4, "reinforce_pp-kl-k3": 3e-5}
"""Of gradients whose advantages are differences of log-probs, in which most digits cancel; by algorithm or case."""
WEIGHTS_BOUND = 1e-3
SEED = 5
HOME = "tests/yardstick/plain_algorithms.py"
CLIPS = {"clip_low", "clip_high"}
WITHOUT_FORMULA = {
    *("tasks_per_step", "samples_per_task", "max_retries", "shuffle", "extra_rollouts", "curriculum"),
    *("max_tokens_per_microbatch", "share_prefixes", "skip_without_gradient", "cpu_offload"),
}
"""Settings of the rollout, and savings that leave the gradient alone (LAW 6)."""
BY_LEARNER = {"filter", "filter_share", "filter_p", "entropy_target", "entropy_step", "observation_coef"}
"""Options that the learner itself applies, beside the algorithm: cases of some algorithms are enough."""
MOVING: dict[str, Any] = {"epochs": 2, "minibatches": 3, "lr": 2e-3}
"""Two passes of three mini-batches, with steps long enough for every clip to act."""


@dataclass(frozen=True)
class Case:
    """One algorithm with options, learning from rollouts as consecutive steps."""

    id: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=lambda: MOVING)
    acts: set[str] = field(default_factory=lambda: CLIPS)
    """What must have acted for the case to be worth its name."""
    temperature: float = 0.8
    rollouts: int = 1
    draw: Callable[[int], list[Group]] = hard_rollouts.mixed
    first: int = 1
    """The step of the first rollout."""


WARMING_ONCE: dict[str, Any] = {"critic_warmup": 1, "lr": 2e-3}
WARMING = MOVING | {"critic_warmup": 1, "warmup_steps": 2, "schedule": "linear", "steps": 5}
DUAL = CLIPS | {"dual_clip"}
PPO_ACTS = CLIPS | {"dual_clip", "value_clip"}
IMPORTANCE = {"importance_weight", "importance_bound"}
TRUNCATED: dict[str, Any] = {"max_staleness": 2, "staleness_correction": "truncated", "importance_clip": 1.3}
AHEAD = MOVING | {"max_staleness": 1}
AHEAD_ONCE: dict[str, Any] = {"max_staleness": 1, "importance_clip": 1.2}
GEOMETRIC = MOVING | {"mismatch_mask": "geometric", "mismatch_low": 0.9, "mismatch_high": 1.1}
TARGET = {"entropy_coef": 0.6, "entropy_target": 4.67, "entropy_step": 0.5}
TAUGHT: dict[str, Any] = {
    **{"teacher": "tiny", "clip_low": 0.1, "clip_high": 0.3},
    **{"loss_mask": False, "aggregation": "constant", "horizon": 37, "entropy_coef": 0.1},
}
HINT, HINTED = {"hint"}, hard_rollouts.hinted
CORRECTED = {"kl_coef": 0.3, "kl_correction": True}
REJECTED = {"failure", "too_many"}
OFF_POLICY = MOVING | {"mismatch_mask": "off_policy", "mismatch_low": 0.9}
MASKED = {"kept", "left_out"}
TURNS: dict[str, Any] = {"ratio": "turn", "clip_low": 0.05, "clip_high": 0.1, "dual_clip": 1.1, "loss_mask": False}
DPPO: dict[str, Any] = {"objective": "dppo", "clip_low": 3e-4, "clip_high": 5e-4, "loss_mask": False}
CASES = [
    Case("grpo", "grpo"),
    Case("grpo-bounds", "grpo", {"clip_low": 0.1, "clip_high": 0.5, "dual_clip": 1.3}, acts=DUAL),
    Case("grpo-eps", "grpo", {"eps": 0.3, "aggregation": "sequence_sum"}),
    Case("grpo-zero-spread", "grpo", {"filter": "zero_spread"}, acts=CLIPS | {"zero_spread"}),
    Case("grpo-top-share", "grpo", {"filter": "top_share", "filter_share": 0.5}, acts=CLIPS | {"top_share"}),
    Case("grpo-top-p", "grpo", {"filter": "top_p", "filter_p": 0.6}, acts=CLIPS | {"top_p"}),
    Case("grpo-k3", "grpo", {"kl_coef": 0.3}),
    Case("grpo-k2", "grpo", {"kl_coef": 0.3, "kl_estimator": "k2", "aggregation": "token_mean"}),
    Case("grpo-k3-corrected", "grpo", {"kl_coef": 0.3, "kl_correction": True}),
    Case("grpo-k2-corrected", "grpo", {"kl_coef": 0.3, "kl_correction": True, "kl_estimator": "k2"}),
    Case("grpo-entropy", "grpo", {"entropy_coef": 0.1}),
    Case("grpo-entropy-target", "grpo", TARGET, MOVING, {"entropy_above", "entropy_below"}, rollouts=3),
    Case("grpo-observations", "grpo", {"observation_coef": 0.1, "ratio": "sequence"}),
    Case("ppo-observations", "ppo", {"observation_coef": 0.5, "loss_mask": False}, WARMING_ONCE, set(), rollouts=2),
    Case("maxrl", "maxrl"),
    Case("gdpo", "gdpo"),
    Case("tree_grpo", "tree_grpo", acts=CLIPS | {"trees"}, draw=hard_rollouts.branched),
    Case("tree_grpo-decoupled", "tree_grpo", {"decouple_rewards": True}, draw=hard_rollouts.branched),
    Case("gdpo-means", "gdpo", {"normalise_std": False, "eps": 0.0, "loss_mask": False}),
    Case("grpo-leave-one-out", "grpo", {"baseline": "leave_one_out"}),
    Case("grpo-mean-over-horizon", "grpo", {"normalise_std": False, "aggregation": "constant", "horizon": 37}),
    Case("grpo-no-mask", "grpo", {"loss_mask": False, "kl_coef": 0.1}),
    Case("grpo-sequence", "grpo", {"ratio": "sequence", "dual_clip": 1.2, "clip_high": 0.1}),
    Case("grpo-cispo", "grpo", {"objective": "cispo", "clip_low": 0.3, "clip_high": 0.2}, acts={"clip_high"}),
    Case("grpo-long", "grpo", settings={"epochs": 2, "lr": 2e-3}, draw=hard_rollouts.long),
    Case("grpo-long-no-mask", "grpo", {"loss_mask": False}, {"lr": 2e-3}, set(), draw=hard_rollouts.long),
    Case("dr_grpo", "dr_grpo"),
    Case("dapo", "dapo", acts=CLIPS | {"resample"}),
    Case("rloo", "rloo"),
    Case("gspo", "gspo"),
    Case("gigpo", "gigpo"),
    Case(
        "gigpo-means", "gigpo", {"normalise_std": False, "omega": 0.5, "gamma_turn": 0.7, "aggregation": "sequence_sum"}
    ),
    Case("gigpo-kl", "gigpo", {"kl_coef": 0.3, "eps": 0.2, "clip_low": 0.1, "clip_high": 0.3}),
    Case("gigpo-k2", "gigpo", {"kl_coef": 0.3, "kl_estimator": "k2"}),
    Case("gigpo-no-mask", "gigpo", {"loss_mask": False, "entropy_coef": 0.1, "aggregation": "constant", "horizon": 37}),
    Case("cispo", "cispo", acts=set()),
    Case("starpo", "starpo"),
    Case("starpo_s", "starpo_s", acts=PPO_ACTS | {"top_share"}),
    Case("ppo", "ppo", acts=PPO_ACTS),
    Case("ppo-discounts", "ppo", {"gamma": 0.9, "lam": 0.8}, MOVING | {"critic_lr": 1e-2}, PPO_ACTS),
    Case("ppo-lambdas", "ppo", {"lam_critic": 1.0, "lam_length": 0.2, "whiten": "scale"}, acts=CLIPS | {"value_clip"}),
    Case("ppo-turns", "ppo", {"gamma_turn": 0.7, "process_scale": 0.5, "gamma": 0.95, "lam": 0.9}),
    Case("ppo-turns-no-mask", "ppo", {"gamma_turn": 0.7, "process_scale": 2.0, "advantage_mask": False}),
    Case("ppo-plain", "ppo", {"whiten": False, "dual_clip": None, "value_clip": None, "aggregation": "sequence_mean"}),
    Case("ppo-bounds", "ppo", {"clip_low": 0.3, "clip_high": 0.1, "dual_clip": 1.5, "value_clip": 0.1}, acts=PPO_ACTS),
    Case("ppo-kl", "ppo", {"kl_coef": 0.2, "gamma": 0.95}, acts=PPO_ACTS),
    Case("ppo-kl-k2", "ppo", {"kl_coef": 0.2, "kl_estimator": "k2"}, acts=CLIPS | {"value_clip"}),
    Case("turn_gae-kl-k3", "turn_gae", {"kl_coef": 0.2, "kl_estimator": "k3"}, acts=CLIPS | {"value_clip"}),
    Case("ppo-kl-loss", "ppo", {"kl_coef": 0.3, "kl_in": "loss"}, acts=CLIPS | {"value_clip"}),
    Case("ppo-k3-loss-one-step", "ppo", {"kl_coef": 0.3, "kl_in": "loss", "kl_estimator": "k3"}, {"lr": 2e-3}, set()),
    Case("ppo-kl-one-step", "ppo", {"kl_coef": 0.2}, {"lr": 2e-3}, set()),
    Case("ppo-no-advantage-mask", "ppo", {"advantage_mask": False, "gamma": 0.95, "lam": 0.9}, acts=PPO_ACTS),
    Case("ppo-horizon", "ppo", {"aggregation": "constant", "horizon": 50}),
    Case("ppo-no-masks", "ppo", {"advantage_mask": False, "loss_mask": False, "kl_coef": 0.2}, acts=PPO_ACTS),
    Case("ppo-zero-spread", "ppo", {"filter": "zero_spread"}, acts=PPO_ACTS | {"zero_spread"}),
    Case("ppo-top-share", "ppo", {"filter": "top_share", "filter_share": 0.4}, acts=PPO_ACTS | {"top_share"}),
    Case("ppo-top-p", "ppo", {"filter": "top_p", "filter_p": 0.8}, acts=CLIPS | {"top_p"}),
    Case("ppo-critic-warm-up", "ppo", settings=WARMING, acts=PPO_ACTS, rollouts=3),
    Case("ppo-entropy-no-masks", "ppo", {"entropy_coef": 0.1, "advantage_mask": False, "loss_mask": False}),
    Case("turn_gae", "turn_gae", acts=PPO_ACTS),
    Case("turn_gae-discounts", "turn_gae", {"gamma": 0.95, "lam": 0.9, "gamma_turn": 0.8, "lam_turn": 0.7}),
    Case("turn_gae-critic", "turn_gae", {"lam": 0.9, "lam_turn": 0.7, "lam_critic": 0.95}),
    Case("turn_gae-kl", "turn_gae", {"kl_coef": 0.2, "whiten": False, "gamma_turn": 0.5}),
    Case("turn_gae-scale", "turn_gae", {"process_scale": 0.2, "lam": 0.9}),
    Case("ppo-long", "ppo", settings={"epochs": 2, "lr": 2e-3}, draw=hard_rollouts.long),
    Case("reinforce_pp", "reinforce_pp", {"gamma": 0.9}),
    Case("reinforce_pp-turns", "reinforce_pp", {"gamma_turn": 0.6, "process_scale": 0.5, "kl_coef": 0.1}),
    Case("reinforce_pp-kl", "reinforce++", {"kl_coef": 0.2, "clip_low": 0.1, "clip_high": 0.3}),
    Case("reinforce_pp-kl-k3", "reinforce_pp", {"kl_coef": 0.2, "kl_estimator": "k3", "dual_clip": 1.3}, acts=DUAL),
    Case("reinforce_pp-no-mask", "reinforce_pp", {"loss_mask": False, "gamma": 0.9, "aggregation": "sequence_sum"}),
    Case("reinforce_pp-horizon", "reinforce_pp", {"aggregation": "constant", "horizon": 37}),
    Case("reinforce_pp-entropy", "reinforce_pp", {"entropy_coef": 0.1, "aggregation": "sequence_mean"}),
    Case("reinforce_pp-top-share", "reinforce_pp", {"filter": "top_share", "filter_share": 0.2}, acts={"top_share"}),
    Case("reinforce_pp-top-p", "reinforce_pp", {"filter": "top_p", "filter_p": 0.9}, acts=CLIPS | {"top_p"}),
    Case("reinforce_pp_baseline", "reinforce_pp_baseline"),
    Case("reinforce_pp_baseline-filter", "reinforce_pp_baseline", {"filter": "zero_spread"}),
    Case("reinforce_pp_baseline-kl", "reinforce_pp", {"baseline": True, "kl_coef": 0.3, "loss_mask": False}),
    Case("reinforce_pp_baseline-k3", "reinforce_pp_baseline", {"kl_coef": 0.3, "kl_estimator": "k3"}),
    Case("remax", "remax"),
    Case("remax-kl", "remax", {"kl_coef": 0.2, "clip_low": 0.1, "clip_high": 0.3, "aggregation": "token_mean"}),
    Case("remax-k3", "remax", {"kl_coef": 0.2, "kl_estimator": "k3"}),
    Case("remax-no-mask", "remax", {"loss_mask": False, "aggregation": "constant", "horizon": 37}),
    Case("remax-entropy", "remax", {"entropy_coef": 0.1, "filter": "zero_spread"}, acts=CLIPS | {"zero_spread"}),
    Case("rft", "rft", acts={"failure", "duplicate"}, draw=hard_rollouts.repeated),
    Case("rft-few", "rft", {"success_at": 0.2, "per_task": 1, "aggregation": "sequence_mean"}, acts=REJECTED),
    Case("rft-many", "rft", {"success_at": -0.5, "entropy_coef": 0.1}, acts={"duplicate"}, draw=hard_rollouts.repeated),
    Case("rft-importance", "rft", {"success_at": 0.2}, {"importance_clip": 1.2, "lr": 2e-3}, IMPORTANCE),
    Case("rft-no-mask", "rft", {"loss_mask": False, "aggregation": "constant", "horizon": 37}, acts={"failure"}),
    Case("sft", "sft", acts=set(), draw=hard_rollouts.demonstrated),
    Case("sft-by-conversation", "sft", {"aggregation": "sequence_mean"}, {"lr": 2e-3}, set(), temperature=1.0),
    Case("sft-file", "sft", {"observations": "file"}, {"lr": 2e-3}, set(), draw=hard_rollouts.demonstrated),
    Case("sft-no-mask", "sft", {"loss_mask": False, "aggregation": "constant", "horizon": 37}, acts=set()),
    Case("sft-entropy", "sft", {"entropy_coef": 0.1, "aggregation": "sequence_sum"}, acts=set()),
    Case("distillation", "distillation", TAUGHT, MOVING | {"importance_clip": 1.2}, CLIPS | IMPORTANCE),
    Case("hint", "distillation", {"hint": "{answers}", "teacher_coef": 0.7}, acts=CLIPS | HINT, draw=HINTED),
    Case("hint-teacher", "distillation", {"hint": "-", "teacher": "tiny"}, acts=CLIPS | HINT, draw=HINTED),
    Case("sdar", "sdar", acts=CLIPS | HINT, draw=HINTED),
    Case("sdar-gate", "sdar", {"teacher_coef": 2.0, "reward_coef": 0.5, "gate": 1.5}, acts=CLIPS | HINT, draw=HINTED),
    Case("one-step", "grpo", settings={"lr": 2e-3}, acts=set(), temperature=1.0),
    Case("engine", "grpo", settings=MOVING | {"old_logprobs": "engine"}, temperature=1.3),
    Case("importance-one-step", "ppo", settings={"importance_clip": 1.1}, acts=IMPORTANCE),
    Case("importance", "grpo", {"loss_mask": False}, MOVING | {"importance_clip": 1.2}, CLIPS | IMPORTANCE),
    Case("stale", "grpo", {"loss_mask": False}, MOVING | {"max_staleness": 1}, CLIPS | {"importance_weight"}),
    Case("stale-one-step", "ppo", {"kl_coef": 0.2}, {"max_staleness": 1, "importance_clip": 1.2}, IMPORTANCE),
    Case("ahead", "grpo", settings=AHEAD, acts=CLIPS | {"importance_weight"}, draw=hard_rollouts.ahead, first=2),
    Case("ahead-kl-one-step", "ppo", {"kl_coef": 0.2}, AHEAD_ONCE, IMPORTANCE, draw=hard_rollouts.ahead, first=2),
    Case("stale-kl", "grpo", CORRECTED, MOVING | {"max_staleness": 1, "importance_clip": 1.3}, CLIPS | IMPORTANCE),
    Case("stale-kl-k2", "grpo", CORRECTED | {"kl_estimator": "k2"}, MOVING | {"max_staleness": 1}),
    Case("stale-truncated-kl-loss", "grpo", CORRECTED, MOVING | TRUNCATED, IMPORTANCE),
    Case("stale-sequence", "gspo", {}, MOVING | {"max_staleness": 1, "importance_clip": 1.02}, CLIPS | IMPORTANCE),
    Case("stale-sequence-kl", "gspo", CORRECTED, MOVING | {"max_staleness": 1}, CLIPS | {"importance_weight"}),
    Case("stale-turn", "grpo", TURNS, MOVING | {"max_staleness": 1, "importance_clip": 1.02}, DUAL | IMPORTANCE),
    Case("stale-dppo", "grpo", DPPO | CORRECTED, MOVING | {"max_staleness": 1}),
    Case("icepop", "grpo", {}, MOVING | {"mismatch_mask": "icepop", "importance_clip": 5.0}, MASKED | CLIPS),
    Case("mismatch-sequence", "grpo", {"loss_mask": False}, MOVING | {"mismatch_mask": "sequence"}, MASKED | CLIPS),
    Case("mismatch-geometric", "gspo", {}, GEOMETRIC, MASKED | CLIPS),
    Case("mismatch-off-policy", "grpo", {}, OFF_POLICY, MASKED | {"kept_positive"}),
    Case("stale-truncated", "ppo", settings=MOVING | TRUNCATED, acts=IMPORTANCE | {"value_clip"}),
    Case("stale-truncated-kl", "reinforce_pp", {"kl_coef": 0.2}, MOVING | TRUNCATED, IMPORTANCE),
    Case(
        "adamw",
        "ppo",
        settings=MOVING | {"weight_decay": 0.3, "betas": (0.7, 0.8), "adam_eps": 1e-3, "max_grad_norm": 0.5},
        acts=CLIPS | {"policy_norm", "critic_norm"},
    ),
    Case("no-gradient-clip", "ppo", settings=MOVING | {"max_grad_norm": 0.0}),
    Case("linear", "ppo", settings=MOVING | {"schedule": "linear", "steps": 3, "warmup_steps": 1}, rollouts=3),
    Case("cosine", "grpo", settings=MOVING | {"schedule": "cosine", "steps": 4}, rollouts=3),
    Case("in-small-pieces", "ppo", settings=MOVING | {"max_tokens_per_microbatch": 30}),
    *(
        Case(f"{name}-unrewarded", name, settings={"epochs": 2, "lr": 2e-3}, acts=set(), draw=hard_rollouts.unrewarded)
        for name in REFERENCES
    ),
]


@lru_cache
def rollouts(count: int, draw: Callable[[int], list[Group]], temperature: float) -> Sequence[list[Group]]:
    """What an engine played that disagrees with the first policy by 0.3 nats a token."""
    weights = in_float64(dict(models()[0].named_parameters()))
    return [hard_rollouts.sampled(draw(seed), weights, shape(), temperature, 0.3) for seed in range(count)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_gradients_and_weights_are_those_of_the_formulas(case: Case) -> None:
    played = rollouts(case.rollouts, case.draw, case.temperature)
    run = learn(
        case.name, case.options, played, temperature=case.temperature, seed=SEED, first=case.first, **case.settings
    )
    reference = PlainLearner(plain(case.name, **case.options), shape(), run, case.temperature, SEED, case.settings)
    for step, groups in enumerate(played, case.first):
        reference.update(groups, step)
    assert case.acts <= reference.active
    bound = BOUNDS.get(case.id, BOUNDS.get(case.name, GRADIENT_BOUND))
    compare("policy", run.policy, reference.policy, bound)
    compare("critic", run.critic, reference.critic, bound)


def compare(network: str, learner: Trained, reference: Network, bound: float) -> None:
    assert len(learner.gradients) == len(reference.gradients)
    for number, (actual, expected) in enumerate(zip(learner.gradients, reference.gradients, strict=True)):
        assert relative_error(actual, expected) < bound, f"{network}, mini-batch {number}"
    expected = {name: reference.adamw.weights[name].detach() - before for name, before in learner.before.items()}
    actual = {name: learner.after[name].double() - before for name, before in learner.before.items()}
    assert relative_error(actual, expected) < WEIGHTS_BOUND, network


def test_every_registered_algorithm_and_option_has_a_reference_and_a_case() -> None:
    for name, options in algorithms().items():
        assert name in REFERENCES, f"algorithm {name!r} has no reference; write it in {HOME}"
        assert options == plain(name).options, f"algorithm {name!r} has other options, or defaults, than in {HOME}"
        kind = REFERENCES[name][0]
        cases = [case for case in CASES if REFERENCES[case.name][0] is kind]
        tried = {option for case in cases for option in (*case.options, *REFERENCES[case.name][1])}
        untried = set(options) - tried - BY_LEARNER
        assert not untried, f"no case sets {sorted(untried)} of algorithm {name!r}; add one"
        assert any(plain(case.name).options == options for case in cases), f"no case is of {name!r}; add one"

    assert {option for case in CASES for option in case.options} >= BY_LEARNER


def test_every_setting_has_a_formula_and_a_case() -> None:
    given = {name: value for name, value in settings().items() if name not in WITHOUT_FORMULA}
    assert given == SETTINGS, "write what is new in tests/yardstick/plain_learner.py"
    assert set(SETTINGS) <= {name for case in CASES for name in case.settings}


def test_the_plain_model_is_the_one_of_transformers() -> None:
    model, ids = tiny_model(), list(range(50, 90))
    expected = torch.log_softmax(model(torch.tensor([ids])).logits[0].double() / 0.7, -1)[:-1]
    actual, entropy = logprobs(in_float64(dict(model.named_parameters())), shape(), ids, 0.7)
    assert torch.allclose(actual, expected.gather(1, torch.tensor(ids[1:])[:, None])[:, 0], atol=1e-5)
    assert torch.allclose(entropy, torch.distributions.Categorical(logits=expected).entropy(), atol=1e-5)
