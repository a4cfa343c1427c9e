"""Where does the processor time of a training step go?

A thread looks every few milliseconds at what each other thread does, and at the processor time that it has used since
(Linux only): that time goes to the innermost function. A short call that ends between two looks is told as waiting of
the same thread, so only threads are told apart where calls are short. Steps count from the third on.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import walk_stack
from types import FrameType

import report
from pairs import STILL, WARM, training_parser

report.keep_calm()

PERIOD = 0.004
"""Seconds between two looks."""
ENGINE, LEARNER = "agent-r1-transformers", "agent_r1_core/learning/"
PARTS = {
    "engine, products": ("agent_r1_transformers/linear.py", "torch/nn/modules/linear.py"),
    "engine, attention": ("kernels/functions.py:attend",),
    "engine, cache": ("agent_r1_transformers/cache.py",),
    "engine, sampling": ("engines/sampling.py",),
    "learner, backward": ("autograd/graph.py",),
    "learner, products of the forward pass": ("torch/nn/modules/linear.py", "learning/head.py"),
    "learner, attention of the forward pass": ("learning/attention.py", "sdpa_attention.py"),
}
"""What the innermost function's path and name hold; the first that fits."""


def part_of(thread: str, frame: FrameType) -> str:
    """The row that a thread's time belongs to."""
    stack = [f"{one.f_code.co_filename}:{one.f_code.co_name}" for one, _ in walk_stack(frame)]
    if thread.startswith(ENGINE):
        owner, rest = "engine", "engine, rest"
    elif any(LEARNER in one for one in stack):
        owner, rest = "learner", "learner, rest"
    else:
        return "tools and other calls" if thread.startswith("agent-r1-call") else "episodes, files and metrics"
    fits = (part for part, held in PARTS.items() if part.startswith(owner) and any(one in stack[0] for one in held))
    return next(fits, rest)


class Sampler(threading.Thread):
    """Looks at the threads of this process, and counts nanoseconds by part once the warm steps are over."""

    def __init__(self, metrics: Path) -> None:
        super().__init__(name="sampler", daemon=True)
        self.spent = Counter[str]()
        self.steps = 0
        """Steps that were counted."""
        self._metrics, self._used, self._over = metrics, dict[int, int](), threading.Event()

    def run(self) -> None:
        while not self._over.wait(PERIOD):
            done = self._metrics.read_bytes().count(b"\n") if self._metrics.exists() else 0
            self.steps = done - WARM
            frames = sys._current_frames()
            for thread in threading.enumerate():
                frame, used = frames.get(thread.ident or 0), _used(thread.native_id)
                since = used - self._used.get(thread.native_id or 0, used)
                self._used[thread.native_id or 0] = used
                if since and self.steps >= 0 and frame is not None and thread is not self:
                    self.spent[part_of(thread.name, frame)] += since

    def end(self) -> None:
        self._over.set()
        self.join()


def _used(thread: int | None) -> int:
    """Nanoseconds of processor time of a thread of this process."""
    try:
        return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[0])
    except OSError:  # it has just ended
        return 0


def main() -> None:
    options = report.chosen(training_parser(__doc__, "parts", 20), steps=2)
    from agent_r1_core import train

    with TemporaryDirectory() as folder:
        place = [f"training.steps={WARM + options.steps}", f"run.dir={folder}", "run.name=parts"]
        sampler = Sampler(Path(folder, "parts", "metrics.jsonl"))
        sampler.start()
        train(options.recipe, [*options.settings, *STILL, *place], trust=True)
        sampler.end()
    total = sum(sampler.spent.values())
    rows = [
        {"part": part, "ms of a step": used / 1e6 / sampler.steps, "share": used / total}
        for part, used in sampler.spent.most_common()
    ]
    report.show(f"Processor time of a step, mean of {sampler.steps}: {total / 1e9 / sampler.steps:.3g} s", rows)
    report.save(options.out, options, {"parts": rows})


if __name__ == "__main__":
    main()
