"""A step as training takes it: rollout, update, new weights in the engine; and TRL's."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import report
from gpu_learner import GIB, make_learner, operations, wait
from vs_trl import at_peer


def steps(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """The tables of this part."""
    said = peer(folder.absolute(), options) if options.trl_python is not None else None
    rows = asyncio.run(ours(folder, options, rate))
    report.show("A step: rollout, update, weights", rows)
    tables: dict[str, Any] = {"step": rows}
    if said is not None:
        theirs, own = statistics.median(report.warm(said["seconds"])), rows[0]["s/step"]
        tables["against TRL"] = [
            {"side": "agent-r1", "s/step": own, "TRL / side": theirs / own, "peak GiB": rows[0]["peak GiB"]},
            {"side": "TRL", "s/step": theirs, "TRL / side": 1.0, "peak GiB": said["peak_bytes"] / GIB},
        ]
        report.show(f"{options.episodes[0]} episodes a step", tables["against TRL"])
    return tables


async def ours(folder: Path, options: argparse.Namespace, rate: float) -> list[dict[str, Any]]:
    """One row for each number of episodes at once, by engine and learner on one device, as in a training run."""
    from memory import peak
    from workload import served

    rows = []
    with peak(options.device) as found:
        learner = make_learner(folder, options)
        most = max(options.episodes)
        async with served(folder, "transformers", options.dtype, options.device, most) as model:
            for episodes in options.episodes:
                steps = [
                    await _step(model, learner, episodes, number, options) for number in range(options.repeats + 1)
                ]
                took = {name: statistics.median(step[name] for step, _ in steps[1:]) for name in steps[0][0]}
                computed, work = operations(learner, steps[-1][1])
                rows.append(
                    {
                        "episodes": episodes,
                        "rollout s": took["rollout"],
                        "rollout tokens/s": took["sampled"] / took["rollout"],
                        "update s": took["update"],
                        "learner tokens/s": took["tokens"] / took["update"],
                        "computed tokens/s": computed / took["update"],
                        "share of matrix rate %": 100 * work / took["update"] / rate,
                        "weights s": took["weights"],
                        "s/step": took["rollout"] + took["update"] + took["weights"],
                    }
                )
    return [row | {"peak GiB": found.bytes / GIB} for row in rows]


async def _step(
    model: Any, learner: Any, episodes: int, number: int, options: argparse.Namespace
) -> tuple[dict[str, float], Any]:
    """Play, update and load weights: the seconds of each and the tokens, and the groups."""
    moments = [time.perf_counter()]
    result = await model.play(episodes, options.new_tokens, number, turns=1, prompt=options.prompt)
    moments.append(time.perf_counter())
    learner.update(result.groups, 1)
    wait(options.device)
    moments.append(time.perf_counter())
    await model.engine.load_weights(learner.policy.weights(), number)
    wait(options.device)
    moments.append(time.perf_counter())
    took = [after - before for before, after in pairwise(moments)]
    tokens = {
        "sampled": sum(one.action_tokens for one in result.trajectories),
        "tokens": sum(one.tokens for one in result.trajectories),
    }
    return dict(zip(("rollout", "update", "weights"), took, strict=True)) | tokens, result.groups


def peer(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What TRL says of its steps."""
    numbers = {
        "--steps": options.repeats + 2,
        "--rollouts": options.episodes[0],
        "--micro": min(options.micro, options.episodes[0]),
        "--prompt": options.prompt,
        "--completion": options.new_tokens,
    }
    words = [word for pair in numbers.items() for word in pair]
    precision = ["--bf16"] if options.dtype == "bfloat16" else []
    return at_peer(options.trl_python.absolute(), "peer_trl.py", "continue", "--model", folder, *words, *precision)
