"""Estimates training memory from the model's shape and the recipe, and lays it out by device; measures nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal

from agent_r1_core.assembly.memory import LearnerLoad, RolloutLoad, Use, peak, total
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


@dataclass(frozen=True)
class MemoryPlan:
    """The roles of a run and the devices that they have."""

    learner: LearnerLoad
    worker: RolloutLoad
    workers: int = 1
    """Rollout workers."""
    placement: Literal["together", "separate", "colocated"] = "together"
    """`together`: both roles in one process. Else every learner rank and rollout worker is a process, which has its own
    devices (`separate`), or shares them with the other role (`colocated`)."""
    turns: bool = False
    """Whether the engine sleeps while the learner computes: `engine.sleep_mode`."""

    def lines(self) -> list[str]:
        """The placement, a line per use, in GiB, and one for what each kind of device needs."""
        learner, worker = self.learner.uses(), self.worker.uses()
        both = peak(learner, worker, turns=self.turns)
        how = "at the peak, since engine and learner take turns" if self.turns else "in total"
        if self.placement == "together":
            return [*_lines(learner), *_lines(worker), _line(how, both)]
        ranks, devices = self.learner.ranks, self.workers * self.worker.gpus
        shared = self.placement == "colocated"
        lines = [
            f"placement: {self.placement}, {max(devices, ranks) if shared else devices + ranks} devices: "
            f"{self.workers} rollout workers x {self.worker.gpus}, {ranks} learner workers x 1",
            *_lines(learner, "learner worker: "),
            *_lines(self.learner.kept(), "learner worker, in main memory: "),
            *_lines(worker, "rollout worker's device: "),
        ]
        if shared:
            return [*lines, _line(f"a device with both, {how}", both)]
        return [
            *lines,
            _line("learner worker, in total", total(learner)),
            _line("rollout worker's device, in total", total(worker)),
        ]


def _lines(uses: Iterable[Use], whose: str = "") -> list[str]:
    return [_line(whose + use.what, use.bytes) for use in uses if use.bytes]


def _line(what: str, size: float) -> str:
    return f"memory: {size / _GIB:8.2f} GiB  {what}"
