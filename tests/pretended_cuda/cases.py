"""Runs every algorithm and the embedded engine on the pretended device; prints what was counted, as JSON.

Each case learns, or decodes, twice; the second time counts, when nothing is made for the first time. Updates are
compared with those on the CPU.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from pretended_cuda import COUNTS, Pretended, PretendedCuda, on_pretended, pretend

pretend()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from algorithms import ALGORITHMS, NAMES  # noqa: E402

from agent_r1_core import EngineModel, Request, Sampling, kernels  # noqa: E402
from agent_r1_core.contracts.training import LoraSettings, TrainingConfig  # noqa: E402
from agent_r1_core.learning.learner import Learner  # noqa: E402
from agent_r1_core.learning.lora import add_lora  # noqa: E402
from agent_r1_core.learning.policy import Policy  # noqa: E402
from agent_r1_core.learning.ranks import Ranks  # noqa: E402
from agent_r1_core.testing import random_group, tiny_model, tiny_model_folder  # noqa: E402

kernels.switch(False)
GROUPS = [random_group(seed) for seed in (1, 2, 3)]
ALIKE = {"dapo", "distillation", "dr_grpo", "gdpo", "maxrl", "rloo", "sdar", "starpo", "starpo_s", "tree_grpo"}
"""Those that compute on the device what another one computes, with other numbers."""
OPTIONS: dict[str, dict[str, Any]] = {
    "grpo, bfloat16": {"dtype": "bfloat16"},
    "grpo, gradient checkpointing": {"gradient_checkpointing": "full"},
    "grpo, selective checkpointing": {"gradient_checkpointing": "selective"},
    "grpo, LoRA": {"lora": LoraSettings(rank=4)},
}


def learn(algorithm: Any, place: Callable[[Any], Any], *, lora: LoraSettings | None = None, **options: Any) -> Learner:
    """Two updates; what the second one costs is counted."""

    def policy() -> Policy:
        model = tiny_model()
        return Policy(place(model if lora is None else add_lora(model, lora, 0)), **options)

    reference = policy().freeze() if "reference" in algorithm.roles() else None
    settings = TrainingConfig(max_tokens_per_microbatch=10**6, skip_without_gradient=False)
    learner = Learner(policy(), copy.deepcopy(algorithm), settings, reference=reference)
    for step in (1, 2):
        COUNTS.clear()
        learner.update(GROUPS, step)
    return learner


def weights(learner: Learner) -> torch.Tensor:
    held = (parameter.detach() for parameter in learner.policy.parameters())
    return torch.cat([(one.held if isinstance(one, Pretended) else one).flatten() for one in held])


def update(algorithm: Any, **options: Any) -> dict[str, Any]:
    """What an update costs, and how far it differs from the one on the CPU."""
    expected = weights(learn(algorithm, lambda model: model, **options))
    with PretendedCuda():
        found = weights(learn(algorithm, on_pretended, **options))
        counted = {"kernels": sum(COUNTS.kernels.values()), "waits": dict(COUNTS.waits)}
    return counted | {"difference": float((found - expected).abs().max())}


def off_loaded() -> dict[str, Any]:
    """What an update costs with FSDP2, one rank, whose weights and moments are in main memory."""
    expected = weights(learn(ALGORITHMS["grpo"], lambda model: model))
    settings = TrainingConfig(max_tokens_per_microbatch=10**6, skip_without_gradient=False)
    with tempfile.TemporaryDirectory() as folder, PretendedCuda():
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        ranks = Ranks(device="cuda", offload=True)
        policy = Policy(tiny_model()).shard(ranks)
        learner = Learner(policy, copy.deepcopy(ALGORITHMS["grpo"]), settings, ranks=ranks)
        for step in (1, 2):
            COUNTS.clear()
            learner.update(GROUPS, step)
        counted = {"kernels": sum(COUNTS.kernels.values()), "waits": dict(COUNTS.waits)}
        held = [one.to_local().detach() for one in policy.parameters()]  # type: ignore[attr-defined]
        dist.destroy_process_group()
    assert not any(isinstance(one, Pretended) for one in held), "weights stay in main memory"
    found = torch.cat([one.flatten() for one in held])
    return counted | {"difference": float((found - expected).abs().max())}


def decoding() -> dict[str, Any]:
    """What a step of the embedded engine costs that samples one id for each of four rows."""
    from agent_r1_transformers.engine import TransformersBackend

    with tempfile.TemporaryDirectory() as folder, PretendedCuda():
        backend = TransformersBackend(8, None, None)
        backend.open(EngineModel(str(tiny_model_folder(folder)), device="cuda", dtype="float32"))
        for key in range(4):
            backend.add(key, Request((1, 2, 3 + key), Sampling(max_new_tokens=8), seed=key))
        for _ in range(4):
            COUNTS.clear()
            backend.step()
        assert not torch.backends.cuda.cudnn_sdp_enabled(), "its plans for each length take longer than the attention"
        return {"kernels": sum(COUNTS.kernels.values()), "waits": dict(COUNTS.waits), "difference": 0.0}


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    for name in (*(one for one in NAMES if one not in ALIKE), "grpo_kl", "ppo_entropy_no_masks"):
        yield name, lambda name=name: update(ALGORITHMS[name])
    for name, options in OPTIONS.items():
        yield name, lambda options=options: update(ALGORITHMS["grpo"], **options)
    yield "grpo, FSDP2 with cpu_offload", off_loaded
    yield "decoding", decoding


if __name__ == "__main__":
    wanted = sys.argv[1:]
    json.dump({name: run() for name, run in cases() if not wanted or name in wanted}, sys.stdout)
