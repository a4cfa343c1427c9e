"""What memory and time would a run take on 1, 8 and 32 GPUs? Computed from shapes and data sheets: nothing is measured.

    python benchmarks/scaling.py

Qwen2.5-3B on one H100 and on one machine of eight, Qwen2.5-32B on four such machines, with the load of recipes/paper:
640 episodes a step of 2,000 tokens on the mean, 400 of them sampled, 8,192 at most; GRPO with a reference, activations
recomputed, micro-batches of 16,384 tokens, of 8,192 for the large model. Memory is what `agent-r1 train --dry-run`
prints for such a recipe (agent_r1_core/assembly/memory.py). Keys and values get what a GPU has left, up to what the
episodes need, and a tenth of each GPU stays free. Take times as right within a factor of two, and compare them with
each other rather than with a clock:

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

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import report

from agent_r1_core.assembly.memory import LearnerLoad, RolloutLoad, peak, total
from agent_r1_core.assembly.model_size import ModelSize

GIB = 2**30
MEMORY, FLOPS, BANDWIDTH, LINK, NETWORK, IN_A_MACHINE = 80e9, 989e12, 3.35e12, 450e9, 8 * 50e9, 8
"""Of an H100 SXM with 80 GB: bytes; dense bfloat16 operations a second; bytes a second of its memory, between two GPUs
of a machine in each direction, and between two machines by all adapters together; GPUs of a machine."""
USED = 0.9
"""Of the memory."""
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
"""Bytes a second that one process copies into shared memory."""
BY_RAY = 1e9
"""Bytes a second that Ray copies from the object store of one machine into that of another."""
AT_WORK = 0.5
"""Share of a worker's episodes that sample at a moment; the others wait for a tool, or have ended."""
EPISODES, TOKENS, SAMPLED, LONGEST, AT_ONCE = 640, 2000, 400, 8192, 160
"""Episodes of a step; tokens of one on the mean, of these sampled, and at most; episodes of a worker at most."""


def qwen_size(
    layers: int, hidden: int, intermediate: int, heads: int, kv_heads: int, vocabulary: int, tied: bool
) -> ModelSize:
    """The size of a model of the Qwen2 family: biases on queries, keys and values, two norms in a layer."""
    kv = kv_heads * hidden // heads
    matrices = [(hidden, hidden), (kv, hidden), (kv, hidden), (hidden, hidden), *[(intermediate, hidden)] * 3]
    layer = sum(rows * columns for rows, columns in matrices) + hidden + 2 * kv + 2 * hidden
    root = (1 if tied else 2) * vocabulary * hidden + hidden
    return ModelSize(
        parameters=layers * layer + root,
        layer=layer,
        root=root,
        head=vocabulary * hidden,
        sides=layers * sum(map(sum, matrices)),
        layers=layers,
        hidden=hidden,
        intermediate=intermediate,
        heads=heads,
        kv_heads=kv_heads,
        head_size=hidden // heads,
    )


SIZES = {
    "Qwen2.5-3B": qwen_size(36, 2048, 11008, 16, 2, 151936, tied=True),
    "Qwen2.5-32B": qwen_size(64, 5120, 27648, 40, 8, 152064, tied=False),
}
"""As their config.json says."""


@dataclass(frozen=True)
class Layout:
    """How the roles share the GPUs."""

    model: str
    cards: int
    ranks: int
    workers: int
    gpus: int = 1
    """Of a rollout worker. With more than one the engine has processes of its own, to which it hands new weights."""
    reference: bool = True
    rank: int | None = None
    """Of LoRA adapters."""

    @property
    def size(self) -> ModelSize:
        return SIZES[self.model]

    @property
    def separate(self) -> bool:
        """Whether each GPU has one role; else the roles take turns on all of them."""
        return self.ranks + self.workers * self.gpus == self.cards and self.cards > 1

    @property
    def microbatch(self) -> int:
        """Tokens."""
        return 16384 if self.model == "Qwen2.5-3B" else 8192

    @property
    def link(self) -> float:
        """Bytes a second of a collective of the learner."""
        return (LINK if self.ranks <= IN_A_MACHINE else min(LINK, NETWORK)) * OF_LINK

    @property
    def token_flops(self) -> float:
        """Of one token's forward pass; the head only sees the tokens before actions."""
        size = self.size
        weights = size.parameters - size.root + size.head * SAMPLED / TOKENS
        return 2.0 * weights + 2.0 * size.layers * TOKENS * size.heads * size.head_size

    def update_seconds(self) -> float:
        """Of the learner's part of a step: forward passes for old log-probs and the reference; then forward, backward
        (two) and recomputing, which adapters save."""
        size, tokens = self.size, EPISODES * TOKENS / self.ranks
        before, update = 2 if self.reference else 1, 4 if self.rank is None else 3
        computing = tokens * (before + update) * self.token_flops / (FLOPS * MFU)
        # Layers travel in bfloat16, roots and gradients in float32; backward passes gather the layers again.
        layers = size.parameters - size.root
        once = 2 * layers + 4 * size.root
        received = (before * once + once + 2 * layers + 4 * size.parameters) * (self.ranks - 1) / self.ranks
        return max(computing, ceil(tokens / self.microbatch) * received / self.link)

    def rollout_seconds(self, at_once: int) -> float:
        """Of the rollout's part of a step, with so many episodes in flight in a worker at most."""
        played = ceil(EPISODES / self.workers)
        batch = max(min(played, at_once) * AT_WORK, 1.0)
        flops, bandwidth = FLOPS * MFU * self.gpus, BANDWIDTH * MBU * self.gpus
        read = 2.0 * (self.size.parameters + batch * TOKENS / 2 * self.size.kv_width)
        step = max(read / bandwidth, batch * self.token_flops / flops)
        return played * SAMPLED / batch * step + played * (TOKENS - SAMPLED) * self.token_flops / flops

    def way(self) -> dict[str, Any]:
        """Seconds of new weights on their way from the learner to the rollout workers, as cells."""
        weights = 2.0 * self.size.parameters
        took = {
            "gather s": weights * (self.ranks - 1) / self.ranks / self.link,
            "to memory s": weights / OF_BUS,
            "to store s": weights / INTO_MEMORY,
            "to machines s": weights / BY_RAY if self.cards > IN_A_MACHINE else 0.0,
            "to processes s": weights / INTO_MEMORY if self.gpus > 1 else 0.0,
            "to cards s": weights / self.gpus / OF_BUS,
        }
        name = f"{self.model}, {self.words()}"
        return {"layout": name, "GB": weights / 1e9, **took, "all s": sum(took.values())}

    def row(self) -> dict[str, Any]:
        """Memory and time as cells."""
        reference, room = self.reference and self.rank is None, MEMORY * USED
        load = LearnerLoad(self.size, self.microbatch, self.ranks, recompute=True, reference=reference, rank=self.rank)
        learner = load.uses()
        kept = 0.0 if self.separate else sum(use.lasting for use in learner)
        playing = RolloutLoad(self.size, min(AT_ONCE, ceil(EPISODES / self.workers)), LONGEST, self.gpus)
        cache = max(min(playing.needed, room - kept - total(playing.uses()[:1])), 0.0)
        worker = replace(playing, cache=cache).uses()
        fits = max(total(learner), total(worker)) if self.separate else peak(learner, worker, turns=True)
        # The mean length: vLLM gives an episode the blocks that it fills, not those that it might.
        at_once = min(playing.episodes, int(cache / (playing.needed / playing.episodes) * LONGEST / TOKENS))
        row: dict[str, Any] = {
            "layout": self.words(),
            "learner GiB": total(learner) / GIB,
            "rollout GiB": (kept + total(worker)) / GIB,
            "episodes": at_once,
        }
        if fits > room or not at_once:
            return {**row, **dict.fromkeys(("rollout s", "update s", "s/step", "overlapped s/step")), "fits": "no"}
        rollout, update = self.rollout_seconds(at_once), self.update_seconds()
        row |= {"rollout s": rollout, "update s": update, "s/step": rollout + update}
        return {**row, "overlapped s/step": max(rollout, update) if self.separate else None, "fits": "yes"}

    def words(self) -> str:
        """The layout in words."""
        gpus = f" x {self.gpus} GPUs" if self.gpus > 1 else ""
        placed = f"{'separate' if self.separate else 'colocated'}: {self.workers}{gpus} + {self.ranks}"
        options = [f"LoRA of rank {self.rank}" if self.rank else "", "" if self.reference else "kl_coef 0"]
        return ", ".join(filter(None, ["one process, taking turns" if self.cards == 1 else placed, *options]))


TABLES = {
    "Qwen2.5-3B on 1 x H100": [
        Layout("Qwen2.5-3B", 1, 1, 1),
        Layout("Qwen2.5-3B", 1, 1, 1, reference=False),
        Layout("Qwen2.5-3B", 1, 1, 1, rank=32),
    ],
    "Qwen2.5-3B on 8 x H100": [
        Layout("Qwen2.5-3B", 8, 8, 8),
        *(Layout("Qwen2.5-3B", 8, 8 - workers, workers) for workers in (2, 3, 4, 6)),
    ],
    "Qwen2.5-32B on 4 x 8 H100": [
        Layout("Qwen2.5-32B", 32, 32, 32),
        *(Layout("Qwen2.5-32B", 32, 32 - 2 * workers, workers, 2) for workers in (2, 4, 6, 8)),
        *(Layout("Qwen2.5-32B", 32, 32 - 4 * workers, workers, 4) for workers in (2, 3)),
    ],
}
WAYS = [
    Layout("Qwen2.5-3B", 8, 8, 8),
    Layout("Qwen2.5-3B", 8, 5, 3),
    Layout("Qwen2.5-32B", 32, 24, 4, 2),
    Layout("Qwen2.5-32B", 32, 20, 3, 4),
]
"""Of which the way of new weights is computed."""


def main() -> None:
    options = report.parser(__doc__, "scaling").parse_args()
    tables = {title: [layout.row() for layout in layouts] for title, layouts in TABLES.items()}
    tables["New weights on their way"] = [layout.way() for layout in WAYS]
    for title, rows in tables.items():
        report.show(f"{title}, computed", rows)
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
