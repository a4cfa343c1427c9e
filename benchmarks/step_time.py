"""Seconds of a training step, computed from a model's size and a card's data sheet; measures nothing.

    FLOPs of a token, forward    2 (parameters of the layers + share of action tokens x head) + 2 layers x T x width
                                 a backward pass costs two forward passes, recomputing one
    update                       tokens x FLOPs / (ranks x card's rate x MFU), or, if it is more, the bytes that a rank
                                 gathers and reduces / (bandwidth x OF_LINK)
    a decoding step              (bytes of the weights + keys and values of the episodes at once) / (bandwidth x MBU),
                                 or, if it is more, its FLOPs / (card's rate x MFU)
    rollout                      decoding steps of a worker's episodes, and reading what is not sampled, once
    new weights                  bytes of the weights / the rate of each stretch of their way, one after the other

T is the length of an episode; causal attention reads half of it on the mean. Left out: tools that all episodes wait
for, prefixes that episodes share, groups that are skipped, all-reduces within a rollout worker, the first seconds of a
run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from agent_r1_core.assembly.model_size import ModelSize

MFU = 0.35
"""Share of the card's bfloat16 rate that matrix products reach; what docs/paper.md assumes, too. Dense models of these
sizes are commonly reported between .3 and .5 with FSDP."""
MBU = 0.6
"""Share of the memory bandwidth that decoding reaches."""
OF_LINK = 0.7
"""Share of the links' bandwidth that collectives of large tensors reach."""
OF_BUS = 10e9
"""Bytes a second between a card and main memory that is not pinned, in each direction."""
INTO_MEMORY = 2e9
"""Bytes a second that one process copies into shared memory; `publishing.py` measures it."""
BY_RAY = 1e9
"""Bytes a second that Ray copies from the object store of one machine into that of another."""
AT_WORK = 0.5
"""Share of a worker's episodes that sample at a moment; the others wait for a tool, or have ended."""


@dataclass(frozen=True)
class Card:
    """What the data sheet of a GPU and of its machine says."""

    name: str
    memory: float
    """Bytes."""
    flops: float
    """Per second, bfloat16, dense."""
    bandwidth: float
    """Of its memory, bytes per second."""
    link: float
    """Between two GPUs of a machine, bytes per second and direction."""
    network: float
    """Between two machines, all adapters together, bytes per second and direction."""
    in_a_machine: int
    """GPUs."""


@dataclass(frozen=True)
class Work:
    """What one step plays and learns."""

    episodes: int
    tokens: int
    """Of an episode on the mean: prompt, actions, observations."""
    sampled: int
    """Of these, sampled by the policy."""
    microbatch: int
    """Tokens."""
    before: int = 2
    """Forward passes before the update: the policy's own log-probs, the reference's."""
    update: int = 4
    """What the update itself costs in forward passes: 1, backwards 2, recomputing 1; adapters save one."""


def forward_flops(size: ModelSize, work: Work) -> float:
    """Of one token; the head only sees the tokens before actions."""
    weights = size.parameters - size.root + size.head * work.sampled / work.tokens
    return 2.0 * weights + 2.0 * size.layers * work.tokens * size.heads * size.head_size


def update_seconds(size: ModelSize, work: Work, card: Card, ranks: int) -> float:
    """Of the learner's part of a step."""
    tokens = work.episodes * work.tokens / ranks
    computing = tokens * (work.before + work.update) * forward_flops(size, work) / (card.flops * MFU)
    bandwidth = (card.link if ranks <= card.in_a_machine else min(card.link, card.network)) * OF_LINK
    return max(computing, ceil(tokens / work.microbatch) * travelling_bytes(size, work, ranks) / bandwidth)


def travelling_bytes(size: ModelSize, work: Work, ranks: int) -> float:
    """That a rank receives for one micro-batch: layers in bfloat16, roots and gradients in float32; backward passes
    gather the layers again."""
    layers = size.parameters - size.root
    once = 2 * layers + 4 * size.root
    update = once + 2 * layers + 4 * size.parameters
    return (work.before * once + update) * (ranks - 1) / ranks


def rollout_seconds(size: ModelSize, work: Work, card: Card, workers: int, gpus: int, at_once: int) -> float:
    """Of the rollout's part of a step.

    Args:
        workers: that share the episodes, with `gpus` cards each.
        at_once: episodes in flight in a worker at most.
    """
    played = ceil(work.episodes / workers)
    batch = max(min(played, at_once) * AT_WORK, 1.0)
    flops, bandwidth = card.flops * MFU * gpus, card.bandwidth * MBU * gpus
    read = 2.0 * (size.parameters + batch * work.tokens / 2 * size.kv_width)
    step = max(read / bandwidth, batch * forward_flops(size, work) / flops)
    reading = played * (work.tokens - work.sampled) * forward_flops(size, work) / flops
    return played * work.sampled / batch * step + reading


def publishing_seconds(size: ModelSize, card: Card, ranks: int, gpus: int, elsewhere: bool) -> dict[str, float]:
    """Of new weights on their way from the learner to the rollout workers, stretch by stretch.

    Args:
        gpus: of a rollout worker. With more than one the engine has processes of its own, to which it hands a copy.
        elsewhere: a rollout worker is on another machine than the first learner worker.
    """
    weights = 2.0 * size.parameters
    link = (card.link if ranks <= card.in_a_machine else min(card.link, card.network)) * OF_LINK
    return {
        "gather": weights * (ranks - 1) / ranks / link,
        "to memory": weights / OF_BUS,
        "to store": weights / INTO_MEMORY,
        "to machines": weights / BY_RAY if elsewhere else 0.0,
        "to processes": weights / INTO_MEMORY if gpus > 1 else 0.0,
        "to cards": weights / gpus / OF_BUS,
    }
