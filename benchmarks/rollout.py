"""How many tokens a second does a rollout sample, by engine, number of episodes, turns, and latency of tools?

    python benchmarks/rollout.py
    python benchmarks/rollout.py --engines transformers vllm --shape small

Episodes walk through a given number of turns of 24 sampled tokens each, with a random model, so that nothing but the
work differs. Three tables per engine: episodes at once; turns, with the update that learns from them and a straight
line fitted through the cost per episode (`exponent`: 1 is growth in proportion to turns, 2 that of reading everything
anew in every turn); and latency of observations, log-normal with sigma 1: one in a hundred takes six times its mean. An
engine that cannot start here is left out, and says why. A full run takes about five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import report

report.keep_calm()

GROUP = 8
WAITING = 64
"""Episodes of the table by latency."""


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "rollout")
    options.add_argument("--engines", nargs="+", default=["transformers"])
    options.add_argument("--shape", default="small", help="shape of the model, see workload.py")
    options.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    options.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--repeats", type=int, default=3, help="rollouts per row; the median is reported")
    options.add_argument("--episodes", type=int, nargs="+", default=[8, 32, 64, 128, 256, 512])
    options.add_argument("--turns", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    options.add_argument("--latencies", type=float, nargs="+", default=[0.0, 0.05, 0.15, 0.5])
    options.add_argument("--at-once", type=int, default=32, help="episodes at once in the tables by turns")
    options.add_argument("--new-tokens", type=int, default=24, help="tokens of an action")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.shape, chosen.repeats, chosen.new_tokens = "tiny", 1, 6
        chosen.episodes, chosen.turns, chosen.latencies, chosen.at_once = [8, 16], [1, 2, 4], [0.0, 0.02], 8
    return chosen


async def play(served: Any, options: argparse.Namespace, episodes: int, **walk: Any) -> tuple[dict[str, float], Any]:
    """The median of several rollouts: seconds, tokens, and its groups."""
    from workload import questions

    from agent_r1_core.rollout import RolloutRequest

    collector = served.collector(episodes, options.new_tokens, **walk)
    group = min(GROUP, episodes)
    found = []
    try:
        for repeat in range(options.repeats + 1):
            tasks = questions(episodes, group, 1000 * repeat)
            begun = time.perf_counter()
            result = await collector.collect(RolloutRequest(tasks, group, repeat))
            seconds = time.perf_counter() - begun
            tokens = sum(one.action_tokens for own in result.groups for one in own.trajectories)
            slept = max(one.seconds for own in result.groups for one in own.trajectories)
            found.append(({"seconds": seconds, "tokens": tokens, "longest": slept}, result.groups))
    finally:
        collector.close()
    timed = sorted(found[1:], key=lambda one: one[0]["seconds"])  # the first warms up
    return timed[len(timed) // 2]


async def by_episodes(served: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Tokens per second by episodes at once, two turns each."""
    rows: list[dict[str, Any]] = []
    for episodes in options.episodes:
        took, _ = await play(served, options, episodes, turns=2)
        rate = took["tokens"] / took["seconds"]
        rows.append(
            {"episodes": episodes, "s": took["seconds"], "tokens/s": rate, "episodes/s": episodes / took["seconds"]}
        )
    return rows


async def by_turns(served: Any, options: argparse.Namespace, learner: Any) -> list[dict[str, Any]]:
    """Seconds per episode by turns, for rollout and update."""
    rows: list[dict[str, Any]] = []
    episodes = options.at_once
    for turns in options.turns:
        took, groups = await play(served, options, episodes, turns=turns)
        updates = [_update(learner, groups) for _ in range(options.repeats + 1)]
        update = statistics.median(updates[1:])
        rows.append(
            {
                "turns": turns,
                "tokens of an episode": statistics.fmean(one.tokens for own in groups for one in own.trajectories),
                "rollout ms/episode": 1000 * took["seconds"] / episodes,
                "update ms/episode": 1000 * update / episodes,
                "ms/episode": 1000 * (took["seconds"] + update) / episodes,
                "tokens/s": took["tokens"] / took["seconds"],
            }
        )
    return rows


def _update(learner: Any, groups: Any) -> float:
    begun = time.perf_counter()
    learner.update(groups, 1)
    return time.perf_counter() - begun


async def by_latency(served: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Tokens a second by the mean latency of observations with a heavy tail, 64 episodes of four turns."""
    rows: list[dict[str, Any]] = []
    episodes = WAITING if not options.quick else 8
    for latency in options.latencies:
        took, _ = await play(served, options, episodes, turns=4, latency=latency, tail=1.0)
        rows.append(
            {
                "mean latency s": latency,
                "s": took["seconds"],
                "slowest episode s": took["longest"],
                "one by one s": rows[0]["s"] + 3 * episodes * latency if rows else took["seconds"],
                "tokens/s": took["tokens"] / took["seconds"],
            }
        )
    return rows


def fit(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Line fits of the cost per episode, from 2 turns on."""
    found = []
    for column in ("rollout ms/episode", "update ms/episode", "ms/episode"):
        points = [(float(row["turns"]), row[column]) for row in rows if row["turns"] >= 2]
        line = report.line_through(points)
        found.append(
            {
                "cost": column,
                "ms per turn": line["slope"],
                "ms beside": line["intercept"],
                "r2": line["r2"],
                "exponent": line["exponent"],
                "farthest point %": 100 * line["worst"],
            }
        )
    return found


async def measure(engine: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All tables of an engine."""
    from workload import ServedModel, make_learner

    most = max(*options.episodes, options.at_once, WAITING)
    served = await ServedModel.open(folder, engine, options.dtype, options.device, most)
    try:
        # Skip no group, so that the amount of work does not depend on chance.
        learner = make_learner(folder, options.dtype, options.device, skip_without_gradient=False)
        turns = await by_turns(served, options, learner)
        return {
            "episodes": await by_episodes(served, options),
            "turns": turns,
            "turns, fitted": fit(turns),
            "latency": await by_latency(served, options),
        }
    finally:
        await served.close()


def main() -> None:
    options = arguments()
    import torch
    from workload import make_folder

    from agent_r1_core.errors import AgentR1Error

    torch.set_num_threads(options.threads)
    tables: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as home:
        folder = make_folder(Path(home), options.shape)
        for engine in options.engines:
            try:
                tables[engine] = asyncio.run(measure(engine, folder, options))
            except AgentR1Error as error:
                print(f"{engine} is left out: {error}", flush=True)
                continue
            for name, rows in tables[engine].items():
                report.show(f"{engine}, {options.dtype}, {options.shape} model: {name}", rows)
    report.save(options.out, options, {"engines": tables})


if __name__ == "__main__":
    main()
