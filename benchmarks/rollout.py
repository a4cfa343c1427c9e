"""How many tokens a second does a rollout sample, by engine, number of episodes, turns, and latency of tools?

    python benchmarks/rollout.py
    python benchmarks/rollout.py --engines transformers vllm --shape small

Episodes walk through a given number of turns of 24 sampled tokens each, with a random model, so that nothing but the
work differs. Three tables per engine: episodes at once; turns, with the update that learns from them and a straight
line fitted through the cost per episode; and latency of observations, log-normal with sigma 1: one in a hundred takes
six times its mean. An engine that cannot start here is left out, and says why. A full run takes about five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from functools import partial
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
    options.add_argument("--repeats", type=int, default=3, help="rollouts per row; the median is reported")
    options.add_argument("--episodes", type=int, nargs="+", default=[8, 32, 64, 128, 256, 512])
    options.add_argument("--turns", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    options.add_argument("--latencies", type=float, nargs="+", default=[0.0, 0.05, 0.15, 0.5])
    options.add_argument("--at-once", type=int, default=32, help="episodes at once in the tables by turns")
    options.add_argument("--new-tokens", type=int, default=24, help="tokens of an action")
    quick = {"shape": "tiny", "repeats": 1, "new_tokens": 6, "episodes": [8, 16], "turns": [1, 2, 4]}
    return report.chosen(options, **quick, latencies=[0.0, 0.02], at_once=8)


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
    tables: dict[str, list[dict[str, Any]]] = {"episodes": [], "turns": [], "latency": []}
    for turns in options.turns:
        took, rate, groups = await play(model, options, options.at_once, turns=turns)
        update = report.seconds_of(partial(learner.update, groups, 1), options.repeats)
        tokens = statistics.fmean(one.tokens for own in groups for one in own.trajectories)
        costs = {"rollout ms/episode": took, "update ms/episode": update, "ms/episode": took + update}
        costs = {name: 1000 * seconds / options.at_once for name, seconds in costs.items()}
        tables["turns"].append({"turns": turns, "tokens of an episode": tokens, **costs, "tokens/s": rate})
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
    columns = ("rollout ms/episode", "update ms/episode", "ms/episode")
    return tables | {"turns, fitted": [{"cost": name} | line_through(tables["turns"], name) for name in columns]}


def line_through(rows: list[dict[str, Any]], cost: str) -> dict[str, float]:
    """Least squares from 2 turns on."""
    xs, ys = zip(*((row["turns"], row[cost]) for row in rows if row["turns"] >= 2), strict=True)
    slope, intercept = statistics.linear_regression(xs, ys)
    return {"slope": slope, "intercept": intercept, "r2": statistics.correlation(xs, ys) ** 2}


async def serve(engine: str, folder: Path, options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Measure an engine, and a learner that skips no group, so that the work does not depend on chance."""
    from workload import make_learner, served

    async with served(folder, engine, "float32", "cpu", max(*options.episodes, options.at_once, WAITING)) as model:
        return await measure(model, make_learner(folder, "float32", "cpu", skip_without_gradient=False), options)


def main() -> None:
    options = arguments()
    import torch
    from workload import make_folder

    from agent_r1_core.errors import AgentR1Error

    torch.set_num_threads(1)
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
                report.show(f"{engine}, float32, {options.shape} model: {name}", rows)
    report.save(options.out, options, {"engines": tables})


if __name__ == "__main__":
    main()
