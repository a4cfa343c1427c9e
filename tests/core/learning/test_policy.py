"""What models and adapters a policy scores with, against plain passes over one segment at a time; and its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from rank_cases import gpt2_model, unpackable_model
from transformers import AutoModelForCausalLM, MistralConfig, MistralForCausalLM

from agent_r1_core.contracts.training import LoraSettings, Recomputation
from agent_r1_core.errors import ModelError
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.lora import AdapterDropout, DropoutSeed
from agent_r1_core.learning.packing import Packed, pack
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import random_group, tiny_model, tiny_model_folder


def some_packed(**more) -> Packed:
    batch = Batch.from_groups([random_group(0, 4, new_segment_at=(1,), **more), random_group(1, 2, **more)])
    return pack(batch, range(batch.size))


def predicted(packed: Packed) -> torch.Tensor:
    """Every token but the first of each segment."""
    return (packed.tree.positions[packed.place] > 0).nonzero().flatten()


def one_by_one(model: Any, packed: Packed) -> torch.Tensor:
    """Log-probs by full logits of every segment alone."""
    starts = (packed.tree.positions[packed.place] == 0).nonzero().flatten().tolist()
    each = [packed.ids[start:stop] for start, stop in pairwise([*starts, len(packed.ids)])]
    tables = [model(input_ids=ids[None], use_cache=False).logits[0, :-1].float().log_softmax(-1) for ids in each]
    return torch.cat([table.gather(1, ids[1:, None])[:, 0] for table, ids in zip(tables, each, strict=True)])


def shifted(policy: Policy, by: float) -> Policy:
    """The policy, after its weights have moved."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(by)
    return policy


def sliding() -> MistralForCausalLM:
    """Its window is shorter than a segment."""
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return MistralForCausalLM(MistralConfig(**shape, num_key_value_heads=2, vocab_size=300, sliding_window=4))


@pytest.mark.parametrize(("make", "recompute"), [(sliding, "none"), (gpt2_model, "full"), (unpackable_model, "none")])
def test_other_architectures_score_alike_also_where_sequences_cannot_be_packed(
    make: Callable[[], Any], recompute: Recomputation, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    model, packed = make().eval(), some_packed(longest=12)
    expected = one_by_one(model, packed)
    policy = Policy(model, gradient_checkpointing=recompute)
    assert policy.decoder.packs == ("one sequence at a time" not in caplog.text) == (make is not unpackable_model)
    torch.testing.assert_close(policy.logprobs(packed, predicted(packed)).logprobs, expected, atol=1e-5, rtol=1e-5)


def test_ordinary_forward_passes_of_the_wrapped_model_still_work() -> None:
    model = tiny_model()
    ids = torch.arange(10)[None]
    before = model(input_ids=ids).logits
    Policy(model)
    torch.testing.assert_close(model(input_ids=ids).logits, before, atol=1e-5, rtol=1e-5)
    padded = model(input_ids=ids.repeat(2, 1), attention_mask=torch.ones(2, 10, dtype=torch.long)).logits
    torch.testing.assert_close(padded[1], before[0], atol=1e-5, rtol=1e-5)


def test_bfloat16_computes_coarsely_over_float32_weights_and_may_be_written_and_given(tmp_path: Path) -> None:
    packed = some_packed()
    fine = Policy(tiny_model(initializer_range=0.02)).logprobs(packed, predicted(packed)).logprobs
    computing = Policy(tiny_model(initializer_range=0.02), "bfloat16")
    coarse = computing.logprobs(packed, predicted(packed)).logprobs
    assert coarse.dtype == torch.float32
    assert 0 < (coarse - fine).abs().max().item() < 0.1
    policy = Policy.load(tiny_model_folder(tmp_path / "model"))
    policy.save(tmp_path / "of a" / "run", dtype="bfloat16")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "of a" / "run", dtype="auto")
    assert next(loaded.parameters()).dtype == torch.bfloat16
    assert {tensor.dtype for _, tensor in policy.each_weight("bfloat16")} == {torch.bfloat16}
    for one in (computing, policy):
        assert {tensor.dtype for tensor in one.weights().values()} == {torch.float32}


@pytest.mark.parametrize("tie", [True, False])
def test_a_saved_policy_can_be_loaded_by_anybody_and_comes_back_bit_for_bit(tmp_path: Path, tie: bool) -> None:
    policy = Policy.load(tiny_model_folder(tmp_path / "model", tie=tie))
    shifted(policy, 0.123456)
    policy.save(tmp_path / "saved")
    again = Policy.load(tmp_path / "saved")
    assert {k: v.tolist() for k, v in again.weights().items()} == {k: v.tolist() for k, v in policy.weights().items()}
    config = (tmp_path / "saved" / "config.json").read_text()
    assert "packed" not in config
    assert json.loads(config)["dtype"] == "float32"
    AutoModelForCausalLM.from_pretrained(tmp_path / "saved")


def test_adapters_begin_as_the_identity_learn_alone_merge_exactly_and_fit_their_own_options(tmp_path: Path) -> None:
    folder = tiny_model_folder(tmp_path / "model")
    packed = some_packed()
    plain = Policy.load(folder).logprobs(packed, predicted(packed)).logprobs.detach()
    policy = Policy.load(folder, lora=LoraSettings(rank=4))
    torch.testing.assert_close(policy.logprobs(packed, predicted(packed)).logprobs, plain)
    before = {name: tensor.clone() for name, tensor in policy.weights().items()}
    assert set(before) == set(Policy.load(folder).weights())
    for _ in range(2):
        policy.logprobs(packed, predicted(packed)).logprobs.sum().backward()
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.sub_(0.1 * parameter.grad)
    moved = policy.logprobs(packed, predicted(packed)).logprobs.detach()
    assert (moved - plain).abs().max() > 1e-3
    policy.save(tmp_path / "merged")
    merged = Policy.load(tmp_path / "merged").logprobs(packed, predicted(packed)).logprobs
    torch.testing.assert_close(merged, moved, atol=1e-4, rtol=1e-4)
    again = Policy.load(folder, lora=LoraSettings(rank=4), seed=7)
    again.load_state_dict(policy.state_dict())
    torch.testing.assert_close(again.logprobs(packed, predicted(packed)).logprobs, moved, atol=0.0, rtol=0.0)
    options = (LoraSettings(rank=4), LoraSettings(rank=2), None)
    for own, others in permutations(options, 2):
        with pytest.raises(ModelError, match="LoRA options"):
            Policy.load(folder, lora=own).load_state_dict(Policy.load(folder, lora=others).state_dict())


def test_adapters_of_embeddings_and_head_merge_exactly_and_what_can_have_none_is_refused(tmp_path: Path) -> None:
    tied, folder = tiny_model_folder(tmp_path / "tied"), tiny_model_folder(tmp_path / "model", tie=False)
    packed = some_packed()
    chosen = LoraSettings(rank=4, target_modules=("embed_tokens", "lm_head", "mlp.down_proj"))
    policy = shifted(Policy.load(folder, lora=chosen), 0.05)
    policy.save(tmp_path / "merged")
    learnt, merged = (
        one.logprobs(packed, predicted(packed)).logprobs for one in (policy, Policy.load(tmp_path / "merged"))
    )
    torch.testing.assert_close(merged, learnt, atol=1e-5, rtol=1e-5)
    refusals = {"v_porj": "v_porj.*is called; its linear layers are q_proj.*empty", "lm_head": "shares.*leave it out"}
    for name, sentence in (
        *refusals.items(),
        ("embed_tokens", "shares.*leave it out"),
        ("input_layernorm", "do not fit"),
    ):
        with pytest.raises(ModelError, match=f"target_modules.*{sentence}"):
            Policy.load(tied, lora=LoraSettings(target_modules=("q_proj", name)))


def test_dropout_of_adapters_follows_from_the_seed_alone(tmp_path: Path) -> None:
    """Another pass, or another step, draws another mask; test_recomputation.py has activations that are computed again,
    test_learner.py draws of others from the global generator."""
    folder, packed = tiny_model_folder(tmp_path / "model"), some_packed()
    policy = shifted(Policy.load(folder, lora=LoraSettings(rank=4, dropout=0.5)), 0.05)

    def gradient(seed: int, passes: int = 1, step: int = 1) -> torch.Tensor:
        policy.seed_dropout(seed, step)
        for _ in range(passes):
            policy.module.zero_grad()
            policy.logprobs(packed, predicted(packed)).logprobs.sum().backward()
        return torch.cat([p.grad.flatten() for p in policy.parameters()])

    first = gradient(1)
    assert torch.equal(gradient(1), first)
    for other in (gradient(2), gradient(1, passes=2), gradient(1, step=2)):
        assert not torch.equal(other, first)
    with torch.no_grad():
        one, two = (policy.logprobs(packed, predicted(packed)).logprobs for _ in range(2))
    assert torch.equal(one, two), "without gradient there is no dropout"


def test_every_rank_drops_others_the_first_what_one_alone_drops_and_the_mean_is_kept() -> None:
    masks = []
    for begin in ((3, 1), (3, 1, 0), (3, 1, 1), (3, 1, 2)):
        seed = DropoutSeed()
        seed.begin(*begin)
        masks += [AdapterDropout(0.5, layer, seed)(torch.ones(50)).tolist() for layer in (0, 1)]
    assert masks[:2] == masks[2:4]
    assert len({tuple(mask) for mask in masks}) == 6, "and so does every layer"
    dropped = AdapterDropout(0.25, 0, DropoutSeed())(torch.ones(1000))
    assert set(dropped.tolist()) == {0.0, float(torch.tensor(1.0) / 0.75)}
    assert abs(float(dropped.mean()) - 1) < 0.06
