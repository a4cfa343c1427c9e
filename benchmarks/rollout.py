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
from typing import TYPE_CHECKING, Any

import report

report.keep_calm()

if TYPE_CHECKING:
    from workload import ServedModel

WAITING = 64
"""Episodes of the table by latency."""


def arguments() -> argparse.Namespace:
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


async def play(model: ServedModel, options: argparse.Namespace, episodes: int, **walk: Any) -> tuple[float, float, Any]:
    """The median of several rollouts: its seconds, tokens a second, and groups."""
    found = []
    for repeat in range(options.repeats + 1):
        begun = time.perf_counter()
        result = await model.play(episodes, options.new_tokens, repeat, **walk)
        found.append((time.perf_counter() - begun, result))
    timed = sorted(found[1:], key=lambda one: one[0])  # the first warms up
    seconds, result = timed[len(timed) // 2]
    return seconds, sum(one.action_tokens for one in result.trajectories) / seconds, result.groups


async def measure(model: ServedModel, learner: Any, options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """All tables of an engine."""
    tables: dict[str, list[dict[str, Any]]] = {"episodes": [], "turns": [], "latency": []}
    for turns in options.turns:
        took, rate, groups = await play(model, options, options.at_once, turns=turns)
        updates = []
        for _ in range(options.repeats + 1):
            begun = time.perf_counter()
            learner.update(groups, 1)
            updates.append(time.perf_counter() - begun)
        update = statistics.median(updates[1:])
        tables["turns"].append(
            {
                "turns": turns,
                "tokens of an episode": statistics.fmean(one.tokens for own in groups for one in own.trajectories),
                "rollout ms/episode": 1000 * took / options.at_once,
                "update ms/episode": 1000 * update / options.at_once,
                "ms/episode": 1000 * (took + update) / options.at_once,
                "tokens/s": rate,
            }
        )
    for episodes in options.episodes:
        took, rate, _ = await play(model, options, episodes, turns=2)
        tables["episodes"].append({"episodes": episodes, "s": took, "tokens/s": rate, "episodes/s": episodes / took})
    waiting, rows = 8 if options.quick else WAITING, tables["latency"]
    for latency in options.latencies:
        took, rate, groups = await play(model, options, waiting, turns=4, latency=latency, tail=1.0)
        slowest = max(one.seconds for own in groups for one in own.trajectories)
        one_by_one = rows[0]["s"] + 3 * waiting * latency if rows else took
        row = {"mean latency s": latency, "s": took, "slowest episode s": slowest, "one by one s": one_by_one}
        rows.append(row | {"tokens/s": rate})
    return tables | {"turns, fitted": fit(tables["turns"])}


def fit(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Line fits of the cost per episode, from 2 turns on."""
    found = []
    for column in ("rollout ms/episode", "update ms/episode", "ms/episode"):
        line = report.line_through([(float(row["turns"]), row[column]) for row in rows if row["turns"] >= 2])
        found.append({"cost": column, **line})
    return found


async def serve(engine: str, folder: Path, options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Measure an engine, and a learner that skips no group, so that the work does not depend on chance."""
    from workload import make_learner, served

    most = max(*options.episodes, options.at_once, WAITING)
    async with served(folder, engine, options.dtype, options.device, most) as model:
        learner = make_learner(folder, options.dtype, options.device, skip_without_gradient=False)
        return await measure(model, learner, options)


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
                tables[engine] = asyncio.run(serve(engine, folder, options))
            except AgentR1Error as error:
                print(f"{engine} is left out: {error}", flush=True)
                continue
            for name, rows in tables[engine].items():
                report.show(f"{engine}, {options.dtype}, {options.shape} model: {name}", rows)
    report.save(options.out, options, {"engines": tables})


if __name__ == "__main__":
    main()
