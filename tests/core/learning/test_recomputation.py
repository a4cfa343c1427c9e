"""What the backward pass computes again changes no gradient, and what waits for it is less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from live_results import LiveResults

from agent_r1_core import kernels
from agent_r1_core.config import load_config
from agent_r1_core.contracts.training import LoraSettings
from agent_r1_core.errors import ModelError
from agent_r1_core.learning import attention, fused, recomputation
from agent_r1_core.learning.attention import TreeMask
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.decoder import Decoder
from agent_r1_core.learning.lora import add_lora
from agent_r1_core.learning.packing import pack
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import random_group, tiny_model

BATCH = Batch.from_groups([random_group(0, 4, new_segment_at=(1,)), random_group(1, 2)])
PACKED = pack(BATCH, range(BATCH.size))
AT = (PACKED.tree.positions[PACKED.place] > 0).nonzero().flatten()
COSTLY = ("mm.default", "bmm.default", "_for_cpu.default")
"""How the names of products and of attention on a CPU end, but for scores, which are a `baddbmm`."""


def products(results: LiveResults) -> int:
    """Products and attention, but for scores."""
    counted = results.operations.items()
    return sum(times for name, times in counted if name.endswith(COSTLY) and "baddbmm" not in name)


def gradient(policy: Policy) -> torch.Tensor:
    logprobs = policy.logprobs(PACKED, AT).logprobs
    (logprobs * torch.linspace(-1, 1, len(AT))).sum().backward()
    return torch.cat([one.grad.flatten() for one in policy.parameters()])


def of_critic(policy: Policy) -> torch.Tensor:
    critic = Critic(policy)
    torch.nn.init.ones_(critic.head.weight)
    (critic.values(PACKED, AT) * torch.linspace(-1, 1, len(AT))).sum().backward()
    return torch.cat([one.grad.flatten() for _, one in critic.named_parameters()])


def adapted() -> Any:
    module = add_lora(tiny_model(), LoraSettings(rank=3, dropout=0.5), 0)
    with torch.no_grad():
        for number, weight in enumerate(module.parameters()):
            weight.add_(0.01 * (number % 7))
    return module


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("make", "compute"), [(tiny_model, gradient), (adapted, gradient), (tiny_model, of_critic)])
def test_no_gradient_changes(make: Callable[[], Any], compute: Any, dtype: str) -> None:
    exact = compute(Policy(make(), dtype))
    assert exact.norm() > 0
    for what in ("selective", "full"):
        assert torch.equal(compute(Policy(make(), dtype, what)), exact), what


@pytest.mark.parametrize(("dtype", "own_kernels"), [("float32", True), ("float32", False), ("bfloat16", False)])
def test_selective_keeps_less_and_computes_no_product_twice(dtype: str, own_kernels: bool) -> None:
    kept, costly = list[int](), list[int]()
    kernels.switch(own_kernels)
    try:
        for what in ("none", "selective", "full"):
            policy = Policy(tiny_model(), dtype, what)
            with LiveResults() as results:
                logprobs = policy.logprobs(PACKED, AT).logprobs
                kept.append(results.bytes())
                logprobs.sum().backward()
            costly.append(products(results))
    finally:
        kernels.switch(True)
    none, selective, full = kept
    assert full < 0.6 * selective, kept
    assert selective < 0.8 * none, kept
    assert costly[1] == costly[0] < costly[2], costly


def test_a_recipe_names_one_of_three_and_selective_needs_a_torch_that_shows_what_it_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recomputation, "visible", lambda: False)
    with pytest.raises(ModelError, match=r"selective needs torch 2\.11, and this is .*; take full$"):
        Policy(tiny_model(), gradient_checkpointing="selective")
    Policy(tiny_model(), gradient_checkpointing="full")

    def chosen(keys: list[str]) -> str:
        return load_config("default", keys).config.model.gradient_checkpointing

    assert chosen([]) == chosen(["model.gradient_checkpointing=false"]) == "none"
    assert chosen(["model.gradient_checkpointing=selective"]) == "selective"
    assert chosen(["model.gradient_checkpointing=true"]) == chosen(["model.gradient_checkpointing=full"]) == "full"


def plain_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, block_mask: Any, scale: float, enable_gqa: bool
) -> torch.Tensor:
    """What FlexAttention computes; CPUs have no kernel for its gradient."""
    place = torch.arange(query.shape[2])
    seen = block_mask.mask_mod(0, 0, place[:, None], place[None, :])
    groups = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
    return (query @ key.transpose(2, 3) * scale).masked_fill(~seen, -1e30).softmax(-1) @ value


@pytest.mark.slow
def test_compiled_layers_show_their_attention_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where attention and elementwise work are compiled; a compiler for the CPU stands for its own."""
    monkeypatch.setattr(attention, "flex_attention", plain_attention)
    monkeypatch.setattr(TreeMask, "attend", through(attention._compiled))
    for function, own in ((fused._Norm, "norm"), (fused._SiluMul, "silu_mul"), (fused._Rotary, "rotary")):
        monkeypatch.setattr(function, "apply", getattr(fused.compiled, own))
    monkeypatch.setattr(Decoder, "_fuse_on_cpu", lambda self: fused.fuse(self.module, torch.device("cuda")))
    attention._kernel.cache_clear()
    found, seen = list[torch.Tensor](), list[int]()
    for what in ("none", "selective", "full"):
        policy = Policy(tiny_model(), gradient_checkpointing=what)
        policy.decoder.tree_mask = TreeMask
        with LiveResults() as results:
            found.append(gradient(policy))
        seen.append(results.operations["inductor_compiled_code"])
    attention._kernel.cache_clear()
    layers = 2
    assert seen == [2 * layers, 2 * layers, 3 * layers], "forward and backward, and once more where all is recomputed"
    for other in found[1:]:
        assert (other - found[0]).norm() < 1e-5 * found[0].norm()


def through(kernel: Callable[[], Any]) -> Any:
    """`TreeMask.attend` by what is compiled."""

    def attend(self: TreeMask, query: Any, key: Any, value: Any, window: int | None, scale: float) -> torch.Tensor:
        grouped = key.shape[1] != query.shape[1]
        out: torch.Tensor = kernel()(query, key, value, block_mask=self.blocks(window), scale=scale, enable_gqa=grouped)
        return out

    return attend
