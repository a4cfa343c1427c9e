"""Log-probs and gradients by kernels are those of torch's operations, for every model whose layers use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from agent_r1_core import kernels
from agent_r1_core.contracts.training import LoraSettings
from agent_r1_core.kernels import compiled
from agent_r1_core.learning import fused
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.decoder import Decoder
from agent_r1_core.learning.lora import add_lora
from agent_r1_core.learning.packing import pack
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.ranks import Ranks
from agent_r1_core.testing import random_group, tiny_model

SHAPE = {"hidden_size": 64, "intermediate_size": 52, "num_hidden_layers": 2, "vocab_size": 320}
GROUPED = {"num_attention_heads": 4, "num_key_value_heads": 2}
CONFIGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "llama": (LlamaConfig, {"num_attention_heads": 4, "num_key_value_heads": 4}),
    "qwen2": (Qwen2Config, GROUPED),
    "qwen2 with windows": (
        Qwen2Config,
        GROUPED | {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
    ),
    "qwen3": (Qwen3Config, {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 24}),
}


@pytest.fixture(autouse=True)
def _kernels(kernels_here: None) -> Iterator[None]:
    yield
    kernels.switch(True)


def computed(module: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs of some packed tokens, and all gradients side by side."""
    batch = Batch.from_groups([random_group(0, 4, new_segment_at=(1,)), random_group(1, 2)])
    packed = pack(batch, range(batch.size))
    at = (packed.tree.positions[packed.place] > 0).nonzero().flatten()
    policy = Policy(module, **options)
    logprobs = policy.logprobs(packed, at).logprobs
    (logprobs * torch.linspace(-1, 1, len(at))).sum().backward()
    return logprobs.detach(), torch.cat([parameter.grad.flatten() for parameter in policy.parameters()])


def agree(found: tuple[torch.Tensor, torch.Tensor], expected: tuple[torch.Tensor, torch.Tensor], near: float) -> None:
    torch.testing.assert_close(found[0], expected[0], atol=near, rtol=0)
    assert (found[1] - expected[1]).norm() < near * expected[1].norm()


def both_ways(make: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> int:
    """Compares them; returns how many functions computed by kernels."""
    calls = []
    for function in (fused._Norm, fused._SiluMul, fused._Rotary):
        own = function.apply
        monkeypatch.setattr(function, "apply", lambda *given, own=own: (calls.append(1), own(*given))[1])
    found = computed(make(), **options)
    used = len(calls)
    kernels.switch(False)
    expected = computed(make(), **options)
    assert len(calls) == used
    agree(found, expected, 1e-5)
    return used


@pytest.mark.parametrize("kind", CONFIGS)
def test_log_probs_and_gradients(kind, monkeypatch) -> None:
    family, options = CONFIGS[kind]

    def make() -> Any:
        torch.manual_seed(1)
        return AutoModelForCausalLM.from_config(family(**SHAPE, initializer_range=0.2, **options)).float()

    norms = 4 if kind == "qwen3" else 2
    assert both_ways(make, monkeypatch) == 2 * (norms + 1 + 2) + 1


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_with_adapters_and_recomputed_activations(recompute, monkeypatch) -> None:
    lora = LoraSettings(rank=4)
    assert both_ways(lambda: add_lora(tiny_model(), lora, 0), monkeypatch, gradient_checkpointing=recompute)


def test_other_models_precisions_and_devices_keep_their_own(monkeypatch) -> None:
    for module, dtype in ((tiny_model(), "bfloat16"), (tiny_model(hidden_act="gelu"), "float32")):
        decoder = Policy(module, dtype).decoder.module
        assert not any("forward" in vars(part) for part in decoder.modules())
    # They take numbers in main memory; a rank's weights are made there, and computed with elsewhere.
    policy = Policy(tiny_model())
    decoder = policy.decoder
    assert any("forward" in vars(part) for part in decoder.module.modules())
    monkeypatch.setattr("agent_r1_core.learning.decoder._tried_on", lambda *where: None)
    monkeypatch.setattr("agent_r1_core.learning.decoder.shard", lambda *given: None)
    decoder.shard(policy.module, Ranks(device="cuda"))
    assert not any("forward" in vars(part) for part in decoder.module.modules())


@pytest.mark.usefixtures("plain_formulas")
@pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-5), ("bfloat16", 0.1)])
def test_the_formulas_that_a_gpu_compiles(dtype, near, monkeypatch) -> None:
    """In bfloat16 they round at other places than transformers does."""
    kernels.switch(False)
    expected = computed(tiny_model(), dtype=dtype)
    kernels.switch(True)
    for function, own in ((fused._Norm, "norm"), (fused._SiluMul, "silu_mul"), (fused._Rotary, "rotary")):
        monkeypatch.setattr(function, "apply", getattr(compiled, own))
    fuse = lambda decoder: fused.fuse(decoder.module, torch.device("cuda"))
    monkeypatch.setattr(Decoder, "_fuse_on_cpu", fuse)
    found = computed(tiny_model(), dtype=dtype)
    agree(found, expected, near)
    assert not torch.equal(found[1], expected[1])
    if dtype == "bfloat16":
        ones = torch.ones(2, 3)
        with torch.autocast("cpu", torch.bfloat16):
            made = compiled.silu_mul(ones, ones), compiled.norm(ones, ones[0], 0)
        assert {one.dtype for one in made} == {torch.bfloat16}, "in which the products that read them compute"
