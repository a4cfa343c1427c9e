"""A step as training takes it: rollout, update, new weights in the engine; and TRL's."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

import report
from gpu_learner import make_learner, operations, wait

GIB, GROUP = 2.0**30, 8


def steps(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """The tables of this part."""
    said = peer(folder.absolute(), options) if options.trl_python is not None else None
    rows = asyncio.run(ours(folder, options, rate))
    report.show("A step: rollout, update, weights", rows)
    tables: dict[str, Any] = {"step": rows}
    if said is not None:
        seconds = statistics.median(report.warm(said["seconds"]))
        memory = said["peak_bytes"] / GIB
        tables["against TRL"] = [
            {"side": "agent-r1", "s/step": rows[0]["s/step"], "TRL / side": seconds / rows[0]["s/step"]},
            {"side": "TRL", "s/step": seconds, "TRL / side": 1.0, "peak GiB": memory},
        ]
        tables["against TRL"][0]["peak GiB"] = rows[0]["peak GiB"]
        report.show(f"{options.episodes[0]} episodes a step", tables["against TRL"])
    return tables


class Bench:
    """Engine and learner on one device, as in a training run."""

    def __init__(self, served: Any, learner: Any, options: argparse.Namespace) -> None:
        self.served, self.learner, self.options = served, learner, options
        self.rollouts: list[dict[str, Any]] = []
        self.steps: list[dict[str, float]] = []
        self.groups: list[Any] = []

    async def step(self, episodes: int, number: int) -> dict[str, float]:
        """Play, update and load weights; returns the seconds of each."""
        collector = self.served.collector(episodes, self.options.new_tokens, turns=1, prompt=self.options.prompt)
        from workload import questions

        from agent_r1_core.rollout import RolloutRequest

        moments = [time.perf_counter()]
        try:
            result = await collector.collect(RolloutRequest(questions(episodes, GROUP, 10000 * number), GROUP, number))
        finally:
            collector.close()
        self.groups = result.groups
        moments.append(time.perf_counter())
        self.learner.update(result.groups, 1)
        wait(self.options.device)
        moments.append(time.perf_counter())
        await self.served.engine.load_weights(self.learner.policy.weights(), number)
        wait(self.options.device)
        moments.append(time.perf_counter())
        names = ("rollout", "update", "weights")
        took = {name: after - before for name, before, after in zip(names, moments, moments[1:], strict=False)}
        trained = [one for group in result.groups for one in group.trajectories]
        return took | {
            "sampled": sum(one.action_tokens for one in trained),
            "tokens": sum(one.tokens for one in trained),
        }


async def ours(folder: Path, options: argparse.Namespace, rate: float) -> list[dict[str, Any]]:
    """One row for each number of episodes at once."""
    from memory import peak
    from workload import ServedModel

    rows = []
    with peak(options.device) as found:
        learner = make_learner(folder, options)
        served = await ServedModel.open(folder, "transformers", options.dtype, options.device, max(options.episodes))
        bench = Bench(served, learner, options)
        try:
            for episodes in options.episodes:
                steps = [await bench.step(episodes, number) for number in range(options.repeats + 1)][1:]
                medians = {name: statistics.median(step[name] for step in steps) for name in steps[0]}
                computed, work = operations(learner, bench.groups)
                rows.append(_row(episodes, medians, computed, work / medians["update"] / rate))
        finally:
            await served.close()
    for row in rows:
        row["peak GiB"] = found.bytes / GIB
    return rows


def _row(episodes: int, medians: dict[str, float], computed: int, share: float) -> dict[str, Any]:
    return {
        "episodes": episodes,
        "rollout s": medians["rollout"],
        "rollout tokens/s": medians["sampled"] / medians["rollout"],
        "update s": medians["update"],
        "learner tokens/s": medians["tokens"] / medians["update"],
        "computed tokens/s": computed / medians["update"],
        "share of matrix rate %": 100 * share,
        "weights s": medians["weights"],
        "s/step": medians["rollout"] + medians["update"] + medians["weights"],
    }


def peer(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """TRL's row."""
    script = report.HOME / "peer_trl.py"
    numbers = {
        "--steps": options.repeats + 2,
        "--rollouts": options.episodes[0],
        "--micro": min(options.micro, options.episodes[0]),
        "--prompt": options.prompt,
        "--completion": options.new_tokens,
    }
    words = [str(word) for pair in numbers.items() for word in pair]
    precision = ["--bf16"] if options.dtype == "bfloat16" else []
    command = [options.trl_python.absolute(), script, "continue", "--model", folder, *words, *precision]
    return report.fresh(command, {"PYTHONPATH": str(report.HOME)})
