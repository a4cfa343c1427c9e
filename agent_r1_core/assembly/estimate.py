"""Estimates training memory from the model's shape and the recipe; measures nothing."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from agent_r1_core.assembly.memory import LearnerLoad, RolloutLoad
from agent_r1_core.assembly.memory_plan import MemoryPlan
from agent_r1_core.assembly.model_size import ModelSize
from agent_r1_core.assembly.model_source import find_local_model

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig

_GIB = 2**30


def estimate_memory(resolved: ResolvedConfig) -> list[str]:
    """Lines about memory in GiB, one per use.

    Downloads nothing: a hub model that is not in the hub's cache has no estimate.

    Raises:
        ModelError: the name is a folder that holds no model, or one whose configuration cannot be read.
    """
    name = resolved.config.model.name
    source = find_local_model(name)
    if source is None or not (source.folder / "config.json").is_file():
        return [f"memory: no estimate, since {name} is not on this machine yet; training downloads it"]
    size = ModelSize.of_folder(source.folder)
    if size is None:
        return ["memory: no estimate for this model (its weights are not safetensors, or its shape is unusual)"]
    return memory_plan(resolved, size).lines()


def memory_plan(resolved: ResolvedConfig, size: ModelSize) -> MemoryPlan:
    """What the roles of a recipe hold, with a model of this size."""
    config, distributed = resolved.config, resolved.config.distributed
    workers = max(distributed.rollout_workers, 1)
    roles = resolved.make("algorithm", config.algorithm).roles()
    width = 2 if config.model.dtype == "bfloat16" else 4
    engine, played = config.engine.config, config.training.tasks_per_step * config.training.samples_per_task
    cache = getattr(engine, "kv_cache_memory", None)
    learner = LearnerLoad(
        size,
        tokens=config.training.max_tokens_per_microbatch,
        ranks=max(distributed.learner_workers, 1),
        width=width,
        recompute=config.model.gradient_checkpointing,
        critic="critic" in roles,
        reference="reference" in roles and config.model.lora is None,
        rank=None if config.model.lora is None else config.model.lora.rank,
        offload=config.training.cpu_offload,
    )
    worker = RolloutLoad(
        size,
        episodes=min(engine.max_episodes, ceil(played / workers)),
        tokens=config.env.config.max_tokens,
        gpus=getattr(engine, "tensor_parallel_size", 1),
        width=width,
        cache=None if cache is None else cache * _GIB,
    )
    placement = distributed.placement if distributed.used else "together"
    return MemoryPlan(learner, worker, workers, placement, turns=getattr(engine, "sleep_mode", False))
