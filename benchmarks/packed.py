"""What does it save the controller that episodes are packed where they were played, and what does packing cost?

    python benchmarks/packed.py

Episodes as a model of 3 B parameters might play them (some 1,600 tokens, 390 of them sampled), ordinary and packed
(plugins/agent_r1_ray/packed.py): packing one, in the worker; unpickling what was reported and pickling it for the
learner, in the controller; unpacking it, in the learner and in the writer. Medians of processor time, without the
garbage collector; and kilobytes on the way and in the controller's memory.
"""

from __future__ import annotations

import argparse
import gc
import pickle
import random
import statistics
import time
import tracemalloc
from array import array
from collections.abc import Callable
from typing import Any

import report

report.keep_calm()

from agent_r1_ray.packed import packed  # noqa: E402

from agent_r1_core.testing import make_trajectory  # noqa: E402
from agent_r1_core.trajectory import CallRecord, Trajectory  # noqa: E402

try:
    from ray.cloudpickle import dumps  # what Ray stores objects with
except ImportError:
    from pickle import dumps  # type: ignore[assignment]

PROMPT, ACTION, OBSERVATION = 350, 130, 450
"""Tokens on the mean."""
TURNS = (2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 5)
"""Of episodes, equally likely."""
WORDS = tuple("".join(random.Random(k).choices("abcdefghijklmnopqrstuvwxyz", k=2 + k % 6)) for k in range(4096))
"""So many that packing makes texts of them hardly smaller than it would real ones."""


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "packed")
    options.add_argument("--episodes", type=int, default=1024)
    chosen = options.parse_args()
    if chosen.quick:
        chosen.episodes = 64
    return chosen


def episode(rng: random.Random) -> Trajectory:
    """One of random tokens and words."""

    def ids(mean: int) -> list[int]:
        return [rng.randrange(150_000) for _ in range(round(mean * rng.uniform(0.4, 1.6)))]

    def said(tokens: list[int]) -> str:
        return " ".join(rng.choices(WORDS, k=max(1, len(tokens) * 3 // 4)))

    turns = rng.choice(TURNS)
    spans = [(ids(OBSERVATION if turn else PROMPT), ids(ACTION)) for turn in range(turns)]
    logprobs = [array("f", [-rng.expovariate(2.0) for _ in action]).tolist() for _, action in spans]
    made = make_trajectory(
        spans, logprobs=logprobs, texts=[said(action) for _, action in spans], reward=1.0, answer="an answer",
        turn_rewards=[0.0] * turns,
    )  # fmt: skip
    for turn, (observation, _) in zip(made.turns, spans, strict=True):
        turn.observation = [{"role": "tool" if turn.index else "user", "content": said(observation)}]
        if turn.index + 1 < turns:
            turn.calls = [CallRecord("wiki_search", {"query": "a query of some words"}, None, 0.3)]
    return made


def measured(work: Callable[[Any], Any], things: list[Any]) -> tuple[float, list[Any]]:
    """Milliseconds of processor time for one, the median of five runs; and what came out."""
    found, made = [], []
    for _ in range(5):
        begun = time.thread_time()
        made = [work(one) for one in things]
        found.append(1000 * (time.thread_time() - begun) / len(things))
    return statistics.median(found), made


def row(form: str, episodes: list[Trajectory]) -> dict[str, Any]:
    """What an episode costs in one form."""
    packing, own = measured(packed, episodes) if form == "packed" else (0.0, episodes)
    sent = [pickle.dumps(one, protocol=5) for one in own]
    tracemalloc.start()
    kept = [pickle.loads(one) for one in sent]
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    unpickling, received = measured(pickle.loads, sent)
    pickling, _ = measured(lambda one: dumps(one, protocol=5), received)
    unpacking, _ = measured(lambda one: pickle.loads(one).segments, sent)
    return {
        "form": form,
        "pack": packing,
        "unpickle": unpickling,
        "to learner": pickling,
        "unpack": unpacking - unpickling,
        "KB sent": sum(map(len, sent)) / 1000 / len(sent),
        "KB in memory": memory / 1000 / len(sent),
    }


def main() -> None:
    options = arguments()
    gc.disable()
    rng = random.Random(0)
    episodes = [episode(rng) for _ in range(options.episodes)]
    table = [row(form, episodes) for form in ("ordinary", "packed")]
    report.show("Milliseconds of processor time, kilobytes, for an episode", table)
    report.save(options.out, options, {"rows": table})


if __name__ == "__main__":
    main()
