"""How much of a GPU do rollout and learner use, with a model of Qwen2.5-3B's shape, and how fast is TRL on the card?

    python benchmarks/gpu.py
    python benchmarks/gpu.py --trl-python PATH --micro 8
    python benchmarks/gpu.py --shape tiny --device cpu      # the same on a CPU, to see that it runs

Random weights, bfloat16. The card's rate is measured with products of large matrices. Rollout: one turn of 256 sampled
tokens after 512 of prompt, groups of 8, by episodes at once. Learner: an update from such a rollout; its share of the
card's rate counts six operations per weight and computed token (the head: per action token), so neither attention nor
anything computed twice; tokens that a group has in common are computed once, and count once there. A step is rollout,
update and new weights in the engine; TRL's is rollout and update, on the same folder, one turn, all its tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import report

for name, value in report.CALM.items():
    os.environ.setdefault(name, value)

GIB, GROUP = 2.0**30, 8


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "gpu")
    options.add_argument("--shape", default="qwen2.5-3b", help="shape of the model, see workload.py")
    options.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    options.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16"])
    options.add_argument(
        "--episodes", type=int, nargs="+", default=[64, 256], help="the first also counts for the step"
    )
    options.add_argument("--prompt", type=int, default=512, help="tokens")
    options.add_argument("--new-tokens", type=int, default=256)
    options.add_argument("--microbatch", type=int, default=4096, help="training.max_tokens_per_microbatch")
    options.add_argument("--gradient-checkpointing", action="store_true")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--trl-python", type=Path, help="Python of an environment that has TRL")
    options.add_argument("--micro", type=int, default=8, help="TRL's rollouts of one backward pass")
    options.add_argument("--folder", type=Path, help="folder of the model, written if missing")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.shape, chosen.device, chosen.repeats = "tiny", "cpu", 1
        chosen.episodes, chosen.prompt, chosen.new_tokens = [8], 32, 8
    return chosen


def wait(device: str) -> None:
    """Wait for the GPU."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def matrix_rate(device: str, dtype: str) -> float:
    """Operations per second of a large square matrix product."""
    import torch

    size = 8192 if device == "cuda" else 1024
    left, right = (torch.randn(size, size, device=device, dtype=getattr(torch, dtype)) for _ in range(2))
    seconds = []
    for _ in range(13):
        wait(device)
        begun = time.perf_counter()
        left @ right
        wait(device)
        seconds.append(time.perf_counter() - begun)
    return 2 * size**3 / statistics.median(seconds[3:])


def make_learner(folder: Path, options: argparse.Namespace) -> Any:
    """A GRPO learner of the model."""
    from agent_r1_core.contracts.training import TrainingConfig
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.learning.policy import Policy
    from agent_r1_core.plugins import Registry

    place = {"dtype": options.dtype, "device": options.device}
    policy = Policy.load(folder, **place, gradient_checkpointing=options.gradient_checkpointing)
    algorithm = Registry.discover().create("algorithm", {"name": "grpo", "aggregation": "token_mean"}, "algorithm")
    settings = TrainingConfig(lr=1e-6, max_tokens_per_microbatch=options.microbatch, skip_without_gradient=False)
    return Learner(policy, algorithm, settings)


def operations(learner: Any, groups: list[Any]) -> tuple[int, float]:
    """Tokens that an update computes, and the operations of its matrix products with weights."""
    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.packing import micro_batches

    batch = Batch.from_groups(groups)
    packs = micro_batches(batch, range(batch.size), learner.settings.max_tokens_per_microbatch)
    tokens = sum(len(packed.tree.ids) for packed in packs)
    head = learner.policy.head.linear.weight.numel()
    layers = sum(weight.numel() for name, weight in learner.policy.weights().items() if ".layers." in name)
    return tokens, 6.0 * (layers * tokens + head * int(batch.action_mask.sum()))


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


def main() -> None:
    options = arguments()
    from workload import make_folder

    with tempfile.TemporaryDirectory() as home:
        folder = make_folder(options.folder or Path(home) / "model", options.shape, "bfloat16", options.device)
        said = peer(folder.absolute(), options) if options.trl_python is not None else None
        rate = matrix_rate(options.device, options.dtype)
        print(f"matrix rate: {rate / 1e12:.3g} tera-operations a second in {options.dtype}", flush=True)
        rows = asyncio.run(ours(folder, options, rate))
    report.show(f"agent-r1, {options.shape}, {options.dtype}, {options.device}", rows)
    tables: dict[str, Any] = {"matrix_rate": rate, "agent-r1": rows}
    if said is not None:
        seconds = statistics.median(report.warm(said["seconds"]))
        memory = said["peak_bytes"] / GIB
        tables["against TRL"] = [
            {"side": "agent-r1", "s/step": rows[0]["s/step"], "TRL / side": seconds / rows[0]["s/step"]},
            {"side": "TRL", "s/step": seconds, "TRL / side": 1.0, "peak GiB": memory},
        ]
        tables["against TRL"][0]["peak GiB"] = rows[0]["peak GiB"]
        report.show(f"{options.episodes[0]} episodes a step", tables["against TRL"])
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
