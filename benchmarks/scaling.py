"""What memory and time would a run take on 1, 8 and 32 GPUs? Computed from shapes and data sheets: nothing is measured.

    python benchmarks/scaling.py

Qwen2.5-3B on one H100 and on one machine of eight, Qwen2.5-32B on four such machines, with the load of recipes/paper:
640 episodes a step of 2,000 tokens on the mean, 400 of them sampled, 8,192 at most; GRPO with a reference, activations
recomputed, micro-batches of 16,384 tokens, of 8,192 for the large model. Memory is what `agent-r1 train --dry-run`
prints for such a recipe; the formulas stand in agent_r1_core/assembly/memory.py and, for time, in
benchmarks/step_time.py. Keys and values get what a GPU has left, up to what the episodes need, and a tenth of each GPU
stays free. Take times as right within a factor of two, and compare them with each other rather than with a clock.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import report
from step_time import Card, Work, publishing_seconds, rollout_seconds, update_seconds

from agent_r1_core.assembly.memory import LearnerLoad, RolloutLoad, peak, total
from agent_r1_core.assembly.model_size import ModelSize

GIB, USED = 2**30, 0.9
H100 = Card("H100 SXM 80 GB", 80e9, 989e12, 3.35e12, 450e9, 8 * 50e9, 8)
WORK = Work(episodes=640, tokens=2000, sampled=400, microbatch=16384)
LARGE = replace(WORK, microbatch=8192)
LONGEST, AT_ONCE = 8192, 160
"""Tokens of an episode, and episodes of a rollout worker, at most."""
SHAPES: dict[str, dict[str, Any]] = {
    "Qwen2.5-3B": {
        "layers": 36, "hidden": 2048, "intermediate": 11008, "heads": 16, "kv_heads": 2,
        "vocabulary": 151936, "tied": True,
    },
    "Qwen2.5-32B": {
        "layers": 64, "hidden": 5120, "intermediate": 27648, "heads": 40, "kv_heads": 8,
        "vocabulary": 152064, "tied": False,
    },
}  # fmt: skip
"""As their config.json says."""


def qwen_size(
    *, layers: int, hidden: int, intermediate: int, heads: int, kv_heads: int, vocabulary: int, tied: bool
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
        sides=layers * sum(sum(lengths) for lengths in matrices),
        layers=layers,
        hidden=hidden,
        intermediate=intermediate,
        heads=heads,
        kv_heads=kv_heads,
        head_size=hidden // heads,
    )


@dataclass(frozen=True)
class Layout:
    """How the roles share the GPUs."""

    model: str
    work: Work
    cards: int
    ranks: int
    workers: int
    gpus: int = 1
    """Of a rollout worker."""
    reference: bool = True
    rank: int | None = None
    """Of LoRA adapters."""

    @property
    def separate(self) -> bool:
        """Whether each GPU has one role; else the roles take turns on all of them."""
        return self.ranks + self.workers * self.gpus == self.cards and self.cards > 1

    def learner(self) -> LearnerLoad:
        """The load of a learner rank."""
        size = qwen_size(**SHAPES[self.model])
        reference = self.reference and self.rank is None
        return LearnerLoad(size, self.work.microbatch, self.ranks, recompute=True, reference=reference, rank=self.rank)

    def worker(self, room: float) -> RolloutLoad:
        """The load of a rollout worker whose GPUs have `room` bytes each."""
        load = RolloutLoad(
            self.learner().size, min(AT_ONCE, -(-self.work.episodes // self.workers)), LONGEST, self.gpus
        )
        return replace(load, cache=max(min(load.needed, room - total(load.uses()[:1])), 0.0))

    def row(self) -> dict[str, Any]:
        """Memory and time as cells."""
        learner, room = self.learner().uses(), H100.memory * USED
        kept = 0.0 if self.separate else sum(use.lasting for use in learner)
        load = self.worker(room - kept)
        worker = load.uses()
        fits = max(total(learner), total(worker)) if self.separate else peak(learner, worker, turns=True)
        # The mean length: vLLM gives an episode the blocks that it fills, not those that it might.
        at_once = min(
            load.episodes, int((load.cache or 0.0) / (load.needed / load.episodes) * LONGEST / self.work.tokens)
        )
        row: dict[str, Any] = {
            "layout": self.words(),
            "learner GiB": total(learner) / GIB,
            "rollout GiB": (kept + total(worker)) / GIB,
            "episodes": at_once,
        }
        names = ("rollout s", "update s", "s/step", "overlapped s/step")
        if fits > room or not at_once:
            return {**row, **dict.fromkeys(names), "fits": "no"}
        work = replace(self.work, before=2 if self.reference else 1, update=4 if self.rank is None else 3)
        size = load.size
        rollout = rollout_seconds(size, work, H100, self.workers, self.gpus, at_once)
        update = update_seconds(size, work, H100, self.ranks)
        overlapped = max(rollout, update) if self.separate else None
        return {**row, **dict(zip(names, (rollout, update, rollout + update, overlapped), strict=True)), "fits": "yes"}

    def words(self) -> str:
        """The layout in words."""
        options = [f"LoRA of rank {self.rank}" if self.rank else "", "" if self.reference else "kl_coef 0"]
        if self.cards == 1:
            return ", ".join(word for word in ("one process, taking turns", *options) if word)
        gpus = f" x {self.gpus} GPUs" if self.gpus > 1 else ""
        placed = "separate" if self.separate else "colocated"
        return ", ".join(word for word in (f"{placed}: {self.workers}{gpus} + {self.ranks}", *options) if word)

    def way(self) -> dict[str, Any]:
        """Seconds of new weights on their way, as cells."""
        size = self.learner().size
        took = publishing_seconds(size, H100, self.ranks, self.gpus, self.cards > H100.in_a_machine)
        cells = {f"{name} s": seconds for name, seconds in took.items()}
        name = f"{self.model}, {self.words()}"
        return {"layout": name, "GB": 2.0 * size.parameters / 1e9, **cells, "all s": sum(took.values())}


TABLES = {
    "Qwen2.5-3B on 1 x H100": [
        Layout("Qwen2.5-3B", WORK, 1, 1, 1),
        Layout("Qwen2.5-3B", WORK, 1, 1, 1, reference=False),
        Layout("Qwen2.5-3B", WORK, 1, 1, 1, rank=32),
    ],
    "Qwen2.5-3B on 8 x H100": [
        Layout("Qwen2.5-3B", WORK, 8, 8, 8),
        *(Layout("Qwen2.5-3B", WORK, 8, 8 - workers, workers) for workers in (2, 3, 4, 6)),
    ],
    "Qwen2.5-32B on 4 x 8 H100": [
        Layout("Qwen2.5-32B", LARGE, 32, 32, 32),
        *(Layout("Qwen2.5-32B", LARGE, 32, 32 - 2 * workers, workers, 2) for workers in (2, 4, 6, 8)),
        *(Layout("Qwen2.5-32B", LARGE, 32, 32 - 4 * workers, workers, 4) for workers in (2, 3)),
    ],
}


WAYS = [
    Layout("Qwen2.5-3B", WORK, 8, 8, 8),
    Layout("Qwen2.5-3B", WORK, 8, 5, 3),
    Layout("Qwen2.5-32B", LARGE, 32, 24, 4, 2),
    Layout("Qwen2.5-32B", LARGE, 32, 20, 3, 4),
]
"""Of which the way of new weights is computed."""


def arguments() -> argparse.Namespace:
    """The command line."""
    return report.parser(__doc__, "scaling").parse_args()


def main() -> None:
    options = arguments()
    chosen = {title: layouts for title, layouts in TABLES.items() if not options.quick or "3B" in title}
    tables = {title: [layout.row() for layout in layouts] for title, layouts in chosen.items()}
    tables["New weights on their way"] = [layout.way() for layout in WAYS]
    for title, rows in tables.items():
        report.show(f"{title}, computed", rows)
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
