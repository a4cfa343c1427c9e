"""The memory of a learner rank and of a rollout worker's GPU, from counts alone; measures nothing.

Bytes, where N parameters are shared by L ranks, W is the width of a number in forward and backward passes, layer and
root are the parameters of the largest layer and of what stands outside the layers:

    weights, gradients, two AdamW moments   16 N / L, twice with a critic        float32
    reference                               4 N / L
    L > 1: gathered while computing         W (2 layer + root)                   a layer, the next one, the root
           gradients before the reduction   W (layer + root) + 4 layer
    L = 1: bfloat16 copies of the weights   2 N                                  made by autocast, kept for a pass
    activations of a micro-batch            W tokens (4 intermediate + A hidden) layers
        recomputed                          tokens (S hidden layers + W (4 intermediate + A hidden))
    head                                    three chunks of logits; L = 1: (4 + W) head, its gradient before it is added
    rollout worker with G GPUs, each        W N / G + W tokens in flight x kv_width / G

A is 16 and S is 4 under autocast (L = 1, bfloat16), whose norms and hidden states between layers stay in float32; else
A is 11 and S is W. Peaks of single uses are added up though they need not coincide. Not counted: the CUDA context,
buffers of NCCL and the fragments of the allocator; leave a tenth of a card free for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent_r1_core.training.model_size import ModelSize

_FLOAT32 = 4
_AROUND, _AROUND_AUTOCAST = 11, 16
"""Activations of a layer per token beside the feed-forward part, in hidden sizes: norms, queries, keys, values,
attention. Counted in Qwen2, whose layers save about 9 in float32 and 10 to 11 with bfloat16 weights."""
_LOGITS = 3 * 2**24
"""Numbers in the chunks of logits that the head holds at once (learning/head.py)."""


@dataclass(frozen=True)
class Use:
    """One use of memory."""

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
    recompute: bool = False
    """`model.gradient_checkpointing`."""
    critic: bool = False
    reference: bool = False
    adapters: bool = False
    """With LoRA the counts of what is trained are upper bounds."""

    def uses(self) -> list[Use]:
        """What one rank holds at the peak of an update; the learner trains all parameters."""
        size, networks = self.size, 2 if self.critic else 1
        trained, bound = networks * size.parameters, " (an upper bound: adapters train fewer)" if self.adapters else ""
        shared = f", a share of 1/{self.ranks}" if self.ranks > 1 else ""
        state = 4 * _FLOAT32 * trained / self.ranks
        frozen = _FLOAT32 * size.parameters / self.ranks if self.reference else 0.0
        return [
            Use(
                f"weights, gradients and optimiser of {trained / 1e6:.1f} M trained parameters{bound}{shared}",
                state,
                state * 3 / 4,  # gradients are freed with the optimiser's step
            ),
            Use(f"the reference's {size.parameters / 1e6:.1f} M weights{shared}", frozen, frozen),
            *(self._gathered() if self.ranks > 1 else self._copies(networks)),
            Use("activations of one micro-batch, about", self._activations(networks)),
        ]

    def _gathered(self) -> list[Use]:
        size = self.size
        weights = self.width * (2 * size.layer + size.root)
        gradients = self.width * (size.layer + size.root) + _FLOAT32 * size.layer
        return [
            Use("two layers and the embeddings, gathered", weights),
            Use("gradients of a layer and of the embeddings, before the ranks share them", gradients),
            Use("logits, in chunks", _FLOAT32 * _LOGITS),
        ]

    def _copies(self, networks: int) -> list[Use]:
        """Without checkpointing a network's copies wait for the backward pass, so those of both stand at once."""
        copies = self.width * self.size.parameters if self.width < _FLOAT32 else 0
        head = (_FLOAT32 + self.width) * self.size.head
        return [
            Use("the weights in bfloat16 during a pass", copies * (1 if self.recompute else networks)),
            Use("logits, in chunks, and the head's gradient", _FLOAT32 * _LOGITS + head),
        ]

    def _activations(self, networks: int) -> float:
        size, autocast = self.size, self.ranks == 1 and self.width < _FLOAT32
        layer = self.width * (4 * size.intermediate + (_AROUND_AUTOCAST if autocast else _AROUND) * size.hidden)
        if not self.recompute:
            return float(networks * self.tokens * size.layers * layer)
        between = (_FLOAT32 if autocast else self.width) * size.hidden
        return float(self.tokens * (networks * size.layers * between + layer))


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
        """Bytes per GPU for keys and values of all episodes at their full length; a head stands on one GPU at least."""
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
    """Bytes of all uses at once."""
    return sum(use.bytes for use in uses)


def peak(learner: Iterable[Use], worker: Iterable[Use], *, turns: bool) -> float:
    """Bytes at the peak of a card that has both roles; with `turns` the engine sleeps while the learner computes."""
    learner, worker = list(learner), list(worker)
    if not turns:
        return total(learner) + total(worker)
    return max(total(learner), sum(use.lasting for use in learner) + total(worker))
