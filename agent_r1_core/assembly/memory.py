"""Estimates the memory of a recipe's learner ranks and rollout workers from counts alone; measures nothing.

Bytes, where N parameters are shared by L ranks, W is the width of a number in forward and backward passes, layer and
root are the parameters of the largest layer and of all that is outside the layers:

    weights, gradients, two AdamW moments   16 N / L, twice with a critic        float32
        with LoRA                           (4 N + 16 rank sides) / L            sides of the adapted matrices
    reference                               4 N / L                              N of a named one, with LoRA that alone
    with `cpu_offload` all of these         in main memory                       and L = 1 is like L > 1
    L > 1: gathered while computing         2 W layer + 4 root                   a layer, the next; all networks' roots
           gradients before they are shared (W + 4) layer + 4 root
    L = 1: bfloat16 copies of the weights   2 N                                  made by autocast, kept for a pass
    one process with LoRA: merged weights   4 N                                  while the engine takes them
    head                                    (4 + W) head, its gradient on the way, and three chunks of logits
    activations of a micro-batch            W tokens (4 intermediate + A hidden) layers
        recomputed in full                  tokens (4 hidden layers + W (4 intermediate + A hidden))
        recomputed selectively              W tokens (k layers + 4 intermediate + A hidden - k)
    rollout worker with G GPUs, each        W N / G + W tokens in flight x kv_width / G, again for each frozen model

A, what a layer keeps beside its feed-forward part, is 16 in bfloat16, where norms and hidden states between layers stay
in float32, and 9 in float32; k is 2 intermediate + 7 hidden in bfloat16, 2 intermediate + 6 hidden in float32. Peaks of
single uses are added up though they need not coincide. Not counted: the CUDA context, buffers of NCCL and the fragments
of the allocator (leave a tenth of a card free for them), and on a CPU the second copy of a real model's weights, in
oneDNN's layout, with which the embedded engine decodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_r1_core.assembly.components import frozen_models
from agent_r1_core.assembly.model_size import ModelSize
from agent_r1_core.assembly.model_source import find_local_model
from agent_r1_core.contracts.training import LoraSettings, Recomputation

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig

_GIB = 2**30
_FLOAT32 = 4
_AROUND = {2: 16, 4: 9}
"""By the width: activations of a layer per token beside the feed-forward part, in hidden sizes: norms, queries, keys,
values, attention. Counted in Qwen2."""
_COSTLY = {2: 7, 4: 6}
"""The same of what selective recomputation keeps: a layer's input, and what products and attention give."""
_LOGITS = {2: 2**27, 4: 2**24}
"""By the width: numbers in a chunk of logits on the device that has it, a GPU and a CPU (learning/head.py)."""


@dataclass(frozen=True)
class Use:
    what: str
    bytes: float
    lasting: float = 0.0
    """Bytes of it that stay while another role has its turn."""


@dataclass(frozen=True)
class LearnerLoad:
    """What the memory of a learner rank follows from."""

    size: ModelSize
    tokens: int
    """Of a micro-batch: `training.max_tokens_per_microbatch`."""
    ranks: int = 1
    width: int = 2
    """Bytes of a number in forward and backward passes: 2 in bfloat16, 4 in float32."""
    recompute: Recomputation = "none"
    """`model.gradient_checkpointing`."""
    critic: bool = False
    reference: int = 0
    """Parameters of the role `reference` where it has weights of its own."""
    lora: LoraSettings | None = None
    """`model.lora`; None: the policy learns in full."""
    offload: bool = False
    """`training.cpu_offload`."""

    @property
    def handed(self) -> float:
        """Bytes of the weights that one process makes for its engine: merged ones, where there are adapters."""
        return 0.0 if self.lora is None else float(_FLOAT32 * self.size.parameters)

    def uses(self) -> list[Use]:
        """What one rank's device holds at the peak of an update."""
        size = self.size
        head = (self.width if self.lora else _FLOAT32 + self.width) * size.head
        chunk = min(_LOGITS[self.width], self.tokens * size.head // size.hidden)
        return [
            *([] if self.offload else self._state()),
            *(self._gathered() if self.ranks > 1 or self.offload else self._copies()),
            Use("logits in chunks, and the head's gradient", 3 * _FLOAT32 * chunk + head),
            Use("activations of one micro-batch, about", self._activations()),
        ]

    def kept(self) -> list[Use]:
        """What one rank keeps in main memory for its device."""
        return self._state() if self.offload else []

    @property
    def _networks(self) -> int:
        return 2 if self.critic else 1

    def _state(self) -> list[Use]:
        """What the ranks share; the gradients go with the optimiser's step."""
        size, shared = self.size, f", a share of 1/{self.ranks}" if self.ranks > 1 else ""
        policy = size.parameters if self.lora is None else self.lora.rank * size.sides(self.lora)
        trained = policy + (size.parameters if self.critic else 0)
        frozen = self.reference + (0 if self.lora is None else size.parameters)
        whose = "the reference's" if self.lora is None else "the frozen model's"
        state, kept = 4 * _FLOAT32 * trained / self.ranks, _FLOAT32 * frozen / self.ranks
        learns = f"weights, gradients and optimiser of {trained / 1e6:.1f} M trained parameters{shared}"
        return [Use(learns, state, state * 3 / 4), Use(f"{whose} {frozen / 1e6:.1f} M weights{shared}", kept, kept)]

    def _gathered(self) -> list[Use]:
        """Layers travel in the precision of the computation, the roots in float32; these stay until the backward pass
        is over."""
        size, roots = self.size, self._networks * _FLOAT32 * self.size.root
        gradients = (self.width + _FLOAT32) * size.layer + roots
        return [
            Use("two layers and the embeddings, gathered", 2 * self.width * size.layer + roots),
            Use("gradients of a layer and of the embeddings, before they are shared", gradients),
        ]

    def _copies(self) -> list[Use]:
        """Without recomputation a network's copies wait for the backward pass, so both exist at once."""
        copies = self.width * self.size.parameters if self.width < _FLOAT32 else 0
        return [
            Use("the weights in bfloat16 during a pass", copies * (self._networks if self.recompute == "none" else 1))
        ]

    def _activations(self) -> float:
        size = self.size
        layer = self.width * (4 * size.intermediate + _AROUND[self.width] * size.hidden)
        costly = self.width * (2 * size.intermediate + _COSTLY[self.width] * size.hidden)
        kept = {"none": layer, "selective": costly, "full": _FLOAT32 * size.hidden}[self.recompute]
        again = {"none": 0, "selective": layer - costly, "full": layer}[self.recompute]
        return float(self.tokens * (self._networks * size.layers * kept + again))


@dataclass(frozen=True)
class RolloutLoad:
    """What the memory of a rollout worker follows from."""

    size: ModelSize
    episodes: int
    """In flight at once."""
    tokens: int
    """Of an episode at most: `env.max_tokens`."""
    gpus: int = 1
    """That share each layer."""
    width: int = 2
    cache: float | None = None
    """Bytes per GPU that the engine sets aside for keys and values; None: as many as the episodes can need."""

    @property
    def needed(self) -> float:
        """Bytes per GPU for keys and values of all episodes at their full length; a head is on one GPU at least."""
        heads = max(self.size.kv_heads / self.gpus, 1.0)
        return self.width * self.episodes * self.tokens * self.size.kv_width * heads / self.size.kv_heads

    def uses(self) -> list[Use]:
        """What each of a worker's GPUs holds; a sleeping engine holds nothing."""
        shared = f", a share of 1/{self.gpus}" if self.gpus > 1 else ""
        if self.cache is None:
            kept = Use(f"keys and values of {self.episodes} episodes, at most", self.needed)
        else:
            full = int(self.cache / (self.needed / self.episodes))
            kept = Use(f"keys and values, which {full} episodes of full length fill", self.cache)
        return [Use(f"the engine's copy of the weights{shared}", self.width * self.size.parameters / self.gpus), kept]


def total(uses: Iterable[Use]) -> float:
    return sum(use.bytes for use in uses)


def peak(learner: Iterable[Use], worker: Iterable[Use], *, turns: bool, handed: float = 0.0) -> float:
    """Bytes at the peak of a card that has both roles; with `turns` the engine sleeps while the learner computes.
    `handed`: of weights on their way to an engine that is awake again."""
    learner, worker = list(learner), list(worker)
    served = sum(use.lasting for use in learner) + total(worker) + handed
    return max(total(learner) + (0 if turns else total(worker)), served)


@dataclass(frozen=True)
class MemoryPlan:
    """The roles of a run and the devices that they have."""

    learner: LearnerLoad
    worker: RolloutLoad
    workers: int = 1
    placement: Literal["together", "separate", "colocated"] = "together"
    """`together`: both roles in one process. Else every learner rank and rollout worker is a process, which has its own
    devices (`separate`), or shares them with the other role (`colocated`)."""
    turns: bool = False
    """Whether the engine sleeps while the learner computes: `engine.sleep_mode`."""
    frozen: tuple[RolloutLoad, ...] = ()
    """Of the frozen models beside the policy, whose engines do not sleep; a judge's texts count as an episode's."""

    def lines(self) -> list[str]:
        """The placement, a line per use, in GiB, and one for what each kind of device needs."""
        learner, worker = self.learner.uses(), self.worker.uses()
        handed = self.learner.handed if self.placement == "together" else 0.0
        frozen = [replace(use, what=f"a frozen model: {use.what}") for load in self.frozen for use in load.uses()]
        both = peak(learner, worker, turns=self.turns, handed=handed) + total(frozen)
        worker += frozen
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


def estimate_memory(resolved: ResolvedConfig) -> list[str]:
    """Lines about memory in GiB, one per use.

    Downloads nothing: a hub model that is not in the hub's cache has no estimate.

    Raises:
        ModelError: a name is a folder that holds no model, or one whose configuration cannot be read.
    """
    name = resolved.config.model.name
    source = find_local_model(name)
    teacher = resolved.make("algorithm", resolved.config.algorithm).reference_model()
    unknown = [] if teacher is None or ModelSize.of_model(teacher) else [teacher]
    if source is None:
        return [
            f"memory: no estimate, since no model {name} is here; training downloads the one of that name from the hub"
        ]
    size = ModelSize.of_folder(source.folder)
    if size is None:
        return ["memory: no estimate for this model (its weights are not safetensors, or its shape is unusual)"]
    here, away = _frozen_models(resolved)
    missing = [f"memory: without the frozen model {one}, whose size nothing here tells" for one in away + unknown]
    return [*memory_plan(resolved, size, here).lines(), *missing]


def _frozen_models(resolved: ResolvedConfig) -> tuple[list[ModelSize], list[str]]:
    """The sizes of the recipe's frozen models, one for each folder, and the names of those without one."""
    sizes: dict[Path, ModelSize] = {}
    away = []
    for name in sorted(frozen_models(resolved)):
        source = find_local_model(resolved.config.model.name if name == "start" else name)
        size = None if source is None else ModelSize.of_folder(source.folder)
        if source is None or size is None:
            away.append(name)
        else:
            sizes[source.folder] = size
    return list(sizes.values()), away


def memory_plan(resolved: ResolvedConfig, size: ModelSize, frozen: Sequence[ModelSize] = ()) -> MemoryPlan:
    """What the roles of a recipe hold, with a model of this size, and with frozen ones."""
    config, distributed = resolved.config, resolved.config.distributed
    workers = max(distributed.rollout_workers, 1)
    algorithm = resolved.make("algorithm", config.algorithm)
    roles, teacher = algorithm.roles(), algorithm.reference_model()
    lora = config.model.lora
    own = size if lora is None else None
    reference = own if teacher is None else ModelSize.of_model(teacher)
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
        reference=reference.parameters if reference and "reference" in roles else 0,
        lora=lora,
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
    others = tuple(replace(worker, size=one) for one in frozen)
    return MemoryPlan(learner, worker, workers, placement, getattr(engine, "sleep_mode", False), others)


def _lines(uses: Iterable[Use], whose: str = "") -> list[str]:
    return [_line(whose + use.what, use.bytes) for use in uses if use.bytes]


def _line(what: str, size: float) -> str:
    return f"memory: {size / _GIB:8.2f} GiB  {what}"
