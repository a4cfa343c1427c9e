"""Shares that stay in main memory, of a rank that has all of them; LAW 6 has several ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist
from agent_r1_ppo.ppo import PPO
from gradients import relative_difference, update_gradients
from torch.nn.attention import flex_attention as library

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning import decoder
from agent_r1_core.learning.attention import TreeMask
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.packing import pack
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.ranks import Ranks
from agent_r1_core.testing import random_group, tiny_model, tiny_model_folder


@contextmanager
def group_of_one(device: str) -> Iterator[Ranks]:
    """A process group of this process alone."""
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield Ranks.of_group(device, offload=True)
    finally:
        dist.destroy_process_group()


@pytest.fixture
def one_rank(gpu: str) -> Iterator[Ranks]:
    with group_of_one(gpu) as ranks:
        yield ranks


@pytest.mark.gpu
def test_off_loaded_networks_learn_what_others_do(gpu: str, one_rank: Ranks) -> None:
    groups = [random_group(seed) for seed in (1, 2)]
    algorithm = PPO(PPO.Config(kl_coef=0.1))
    (expected,) = update_gradients(tiny_model().to(gpu), algorithm, groups)
    (found,) = update_gradients(tiny_model(), algorithm, groups, ranks=one_rank)
    assert relative_difference(found.cpu(), expected.cpu()) < 1e-5


@pytest.mark.gpu
def test_weights_and_moments_are_in_main_memory_and_what_a_pass_needs_is_not(
    gpu: str, one_rank: Ranks, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tiny_model_folder(tmp_path_factory.mktemp("model"))
    learners = [
        Learner(Policy.load(folder, device=device), PPO(), TrainingConfig(lr=1e-2), ranks=ranks)
        for device, ranks in ((gpu, Ranks()), ("cpu", one_rank))
    ]
    for learner in learners:
        for step in (1, 2):
            learner.update([random_group(seed) for seed in (step, step + 10)], step)
    alone, shared = learners
    assert {tensor.device.type for tensor in shared.state.tensors().values()} == {"cpu"}
    assert {weight.device.type for weight in shared.policy.parameters()} == {"cpu"}
    assert all(weight.to_local().is_pinned() for weight in shared.policy.parameters()) == (gpu == "cuda")
    assert shared.policy.device.type == gpu
    assert {buffer.device.type for buffer in shared.policy.model.buffers()} == {gpu}
    weights = shared.policy.weights()
    for name, weight in alone.policy.weights().items():
        assert torch.allclose(weights[name].cpu(), weight.cpu(), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_rank_uses_what_compiles_where_it_will_compute(kernels_here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU stands for the GPU here; the layers see all tokens or a few."""
    policy = Policy(tiny_model(use_sliding_window=True, sliding_window=3, max_window_layers=1))
    batch = Batch.from_groups([random_group(0, 3)])
    packed, at = pack(batch, range(batch.size)), batch.action_mask[batch.valid].nonzero().flatten()
    expected = policy.logprobs(packed, at).logprobs.detach()
    monkeypatch.setattr(decoder, "_COMPILED_ON", "cpu")
    monkeypatch.setattr(library, "_validate_device", lambda query, key, value: None)
    with group_of_one("cpu") as ranks, torch.no_grad():
        policy.shard(ranks)
        assert policy.decoder.tree_mask is TreeMask
        assert policy.decoder.fused
        found = policy.logprobs(packed, at).logprobs
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert policy.ranks.share


def test_where_a_policy_has_no_numbers_its_critic_has_none() -> None:
    """On all ranks but the first, which the others get theirs from."""
    critic = Critic(Policy(tiny_model().to("meta")))
    assert {parameter.device.type for _, parameter in critic.named_parameters()} == {"meta"}
