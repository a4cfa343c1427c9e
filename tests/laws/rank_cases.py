"""What each of several ranks computes for the tests of LAW 6, and what it tells of it."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import hard_rollouts
import pytest
import real_learner
import torch
from algorithms import ALGORITHMS, block_of
from gradients import KeptGradients
from plain_algorithms import plain
from plain_learner import PlainLearner
from plain_model import in_float64
from safetensors.torch import load_file
from torch import nn
from torch.nn.attention import flex_attention
from transformers import GPT2Config, GPT2LMHeadModel

from agent_r1_core.contracts.training import LoraSettings, TrainingConfig
from agent_r1_core.learning import decoder
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.lora import add_lora
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.ranks import ONE_RANK, Ranks
from agent_r1_core.testing import tiny_model, tiny_model_folder

TEMPERATURE, SEED = 0.8, 5
ADAPTERS = LoraSettings(rank=3)
SETTINGS: dict[str, Any] = {"lr": 2e-3, "max_tokens_per_microbatch": 40}
"""Micro-batches so small that ranks have different numbers of them."""

Found = dict[str, Any]
"""What a rank found of a case: flat tensors by name, and metrics."""


def found_by(ranks: Ranks, case: str) -> Found:
    """What one rank finds of a case: of an algorithm, or of OTHERS."""
    if case in OTHERS:
        return OTHERS[case](ranks)
    name, _, draw = case.partition("/")
    return _described(learn(name, [groups(draw or "mixed")], ranks))


@lru_cache
def groups(draw: str) -> Any:
    """Groups of hard_rollouts.py, played by an engine that disagrees with the first policy by 0.3 nats a token."""
    weights = in_float64(dict(real_learner.models()[0].named_parameters()))
    return hard_rollouts.sampled(getattr(hard_rollouts, draw)(), weights, real_learner.shape(), TEMPERATURE, 0.3)


def learn(name: str, rollouts: Sequence[Any], ranks: Ranks, **settings: Any) -> Any:
    """Updates by an algorithm of algorithms.py."""
    block = block_of(name)
    options = {"temperature": TEMPERATURE, "seed": SEED} | SETTINGS | settings
    return real_learner.learn(block.pop("name"), block, rollouts, ranks=ranks, **options)


@lru_cache
def formulas(case: str) -> list[real_learner.Named]:
    """The gradients of policy and critic, where there is one, by the formulas of tests/yardstick in float64."""
    name, _, draw = case.partition("/")
    played = groups(draw or "mixed")
    begun = learn(name, [played], ONE_RANK)
    learner = PlainLearner(plain(**block_of(name)), real_learner.shape(), begun, TEMPERATURE, SEED, SETTINGS)
    learner.update(played, 1)
    return [gradient for network in (learner.policy, learner.critic) for gradient in network.gradients]


def _described(run: Any) -> Found:
    networks = [network for network in (run.policy, run.critic) if network.gradients]
    gradients = [gradient for network in networks for gradient in network.gradients]
    weights = {when: [getattr(network, when) for network in networks] for when in ("before", "after")}
    return weights | {"gradients": gradients, "metrics": [_plain(metrics) for metrics in run.metrics]}


def _plain(metrics: dict[str, float]) -> dict[str, float]:
    return {str(name): value for name, value in metrics.items()}


def _long_run(ranks: Ranks) -> Found:
    """Two updates of two passes of two mini-batches; in the first only the critic learns."""
    rollouts = [groups("unrewarded"), groups("mixed")]
    return _described(learn("ppo_kl", rollouts, ranks, epochs=2, minibatches=2, critic_warmup=1))


def _policy(ranks: Ranks, name: str = "grpo_kl", model: Any = None, lora: Any = None, **options: Any) -> Found:
    """Of a policy that every rank has whole, which is not the reference."""
    policy = Policy(add_lora(tiny_model(), lora, 0) if lora else model or tiny_model(), **options)
    reference = None if lora else Policy(copy.deepcopy(policy.module), policy.dtype).freeze()
    _shift(policy.parameters())
    return _updated(ranks, name, policy, reference)


def _loaded(ranks: Ranks, name: str = "ppo_kl", write: Callable[[Path], Any] = tiny_model_folder, **load: Any) -> Found:
    """Of networks from a folder, as a run makes them; and on what device this rank had the policy before it was cut."""
    with tempfile.TemporaryDirectory() as created:
        if not ranks.rank:
            write(Path(created))
        own = ranks.first(created)
        reference = None if "lora" in load else Policy.load(own, ranks=ranks).freeze().shard(ranks)
        policy = Policy.load(own, ranks=ranks, **load)
        held = policy.device.type
        found = _updated(ranks, name, policy, reference)
    found["held"] = held
    found["buffers"] = {name: buffer.clone() for name, buffer in policy.model.named_buffers()}
    return found


def _offloaded(ranks: Ranks) -> Found:
    """With shares in main memory, of a single rank, too; beside the gradient of one that has no shares."""
    exact = _updated(ONE_RANK, "ppo_kl", Policy(tiny_model()), Policy(tiny_model()).freeze())
    return _loaded(replace(ranks, offload=True)) | {"exact": exact["gradient"]}


def _untied(folder: Path) -> None:
    """The configuration ties what the file does not."""
    tiny_model(tie=False).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))


def _one_kernel(ranks: Ranks) -> Found:
    """On a device for which attention in one kernel is tried out; the CPU stands for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "_COMPILED_ON", "cpu")
        patch.setattr(flex_attention, "_validate_device", lambda query, key, value: None)
        return _loaded(ranks, "grpo_kl")


def _updated(ranks: Ranks, name: str, policy: Policy, reference: Policy | None) -> Found:
    """The gradient of one update, the weights after another, what they score, and whether they can be saved."""
    training = TrainingConfig(**SETTINGS)
    learner = Learner(policy, ALGORITHMS[name], training, reference=reference, temperature=TEMPERATURE, ranks=ranks)
    optimiser, kept = learner.optimiser, KeptGradients(policy.parameters(), training)
    learner.optimiser = kept
    update = learner.update(groups("mixed"), 1)
    metrics, numbers = [update.metrics], update.numbers
    learner.optimiser = optimiser
    metrics.append(learner.update(groups("mixed"), 2).metrics)
    weights = policy.snapshot()
    return {
        "gradient": kept.kept[0],
        "weights": weights,
        "half": dict(policy.each_weight("bfloat16")),
        "shares": {name: (first, rows.clone()) for name, _, first, rows in policy.each_share("bfloat16")},
        "scores": torch.cat(learner.score([([[1, 2, 3]], [[5, 6], [7]]), ([[4], [4, 1]], [[8, 9], [7]])]), 1),
        "saved": _saved(policy),
        "metrics": [_plain(one) for one in metrics],
        "told": [torch.tensor(one) for one in (numbers.learner_logprobs, numbers.values) if one is not None],
        "one kernel": policy.decoder.tree_mask is not None,
    }


def _shift(parameters: Iterable[Any]) -> None:
    """Move weights, so that adapters and biases do something."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))


def _saved(policy: Any) -> dict[str, Any]:
    """The tensors of the folder that the policy saves, if it does."""
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / "saved")
        file = Path(folder) / "saved" / "model.safetensors"
        return load_file(file) if file.exists() else {}


def gpt2_model() -> GPT2LMHeadModel:
    """Its layers stand under another name, and its matrices the other way round."""
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=300, n_embd=32, n_layer=2, n_head=2, n_positions=128)).eval()


def unpackable_model() -> Any:
    """Its decoder refuses packed sequences, as recurrent architectures do, and runs one at a time: ranks run it a
    different number of times within a pass."""
    model = tiny_model()
    forward = model.model.forward

    def refusing(**keywords: Any) -> Any:
        if "spans" in keywords:
            raise TypeError("unexpected keyword 'spans'")
        return forward(**keywords)

    model.model.forward = refusing
    return model


def _experts(ranks: Ranks) -> Found:
    """A layer with experts of which a pass leaves those out that no token asks for: the idle pass two of three."""

    class Experts(nn.Module):
        """Tokens choose by their first two numbers."""

        def __init__(self, expert: nn.Module) -> None:
            super().__init__()
            self.experts = nn.ModuleList(copy.deepcopy(expert) for _ in range(3))

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            choice, out = (hidden[..., 0] > 0).long() + (hidden[..., 1] > 0), torch.zeros_like(hidden)
            for number, expert in enumerate(self.experts):
                if bool((choice == number).any()):
                    out[choice == number] = expert(hidden[choice == number])
            return out

    model = tiny_model()
    model.model.layers[1].mlp = Experts(model.model.layers[1].mlp)
    return _policy(ranks, model=model)


OTHERS: dict[str, Callable[[Ranks], Found]] = {
    "long run": _long_run,
    "policy": _policy,
    "activation checkpointing": partial(_policy, name="ppo_kl", gradient_checkpointing="full"),
    "selective checkpointing": partial(_policy, name="ppo_kl", gradient_checkpointing="selective"),
    # Beside the gradient in float32, by one rank.
    "bfloat16": lambda ranks: _policy(ranks, dtype="bfloat16") | {"exact": _policy(ONE_RANK)["gradient"]},
    "bfloat16 adapters": lambda ranks: (
        _policy(ranks, lora=ADAPTERS, dtype="bfloat16") | {"exact": _policy(ONE_RANK, lora=ADAPTERS)["gradient"]}
    ),
    "adapters": partial(_policy, lora=ADAPTERS),
    "adapters with activation checkpointing": partial(_policy, lora=ADAPTERS, gradient_checkpointing="full"),
    "adapters with selective checkpointing": partial(_policy, lora=ADAPTERS, gradient_checkpointing="selective"),
    "gpt2": lambda ranks: _policy(ranks, model=gpt2_model()),
    "unpackable": lambda ranks: _policy(ranks, "grpo", unpackable_model()),
    "experts": _experts,
    "loaded": _loaded,
    "loaded, untied by its file": partial(_loaded, write=_untied),
    "loaded gpt2": partial(_loaded, name="grpo_kl", write=lambda folder: gpt2_model().save_pretrained(folder)),
    "loaded adapters": partial(_loaded, lora=ADAPTERS),
    "loaded adapters of embeddings and head": partial(
        _loaded,
        write=partial(tiny_model_folder, tie=False),
        lora=LoraSettings(rank=3, target_modules=("embed_tokens", "lm_head", "q_proj")),
    ),
    "loaded, one kernel": _one_kernel,
    "loaded, off-loaded": _offloaded,
}
COMPILED = "loaded, one kernel"
"""Every rank compiles its kernels, for seconds; two ranks are enough."""
