"""How near is a real model's speed on this CPU to what the machine can do, in rollouts and updates?

    python benchmarks/real_model.py MODEL_FOLDER

Two tables. `rollout`: sampled tokens a second of each engine by episodes at once, in groups of 8 that share a random
prompt of 150 ids; every episode samples 64 ids at temperature 1, whatever they are. `update`: the learner's forward and
backward passes and step, on 8 groups of 8 with two turns; `tokens/s` counts all tokens of the episodes, shared or not.

`limit` is what the machine could do: for each step the longer of two times, its products at the rate that torch reaches
on large matrices, and the weights at the rate at which torch reads memory; contexts are read once for a group. Both
rates are measured with the same threads between the other measurements, since all take turns. Limits and shares of them
are in processor seconds, of all threads, which other work on the machine disturbs less than seconds; medians.

An engine that cannot start here is left out, and says why. Without a folder the bundled model is measured. A full run
of a model with 135 M parameters takes about half an hour.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import report

if TYPE_CHECKING:
    from agent_r1_core.assembly.model_size import ModelSize

report.keep_calm()

GROUP, PROMPT, ACTION, OBSERVATION = 8, 150, 25, 40
BYTES, SIDE, PRODUCTS = 2**28, 1024, 8
"""Of reading memory once, and of products of square matrices."""
Times = dict[str, list[tuple[float, float]]]
"""By what was measured: seconds, and processor seconds."""


def arguments() -> argparse.Namespace:
    options = report.parser(__doc__, "real_model")
    options.add_argument("model", nargs="?", type=Path, help="a Hugging Face folder of a Llama, Qwen2 or Qwen3")
    options.add_argument("--only", choices=["rollout", "update"])
    options.add_argument("--engines", nargs="+", default=["transformers", "vllm"])
    options.add_argument("--repeats", type=int, default=5, help="measurements in turn; medians are reported")
    options.add_argument("--episodes", type=int, nargs="+", default=[1, 8, 32, 64])
    options.add_argument("--new-tokens", type=int, default=64)
    options.add_argument("--groups", type=int, default=8, help="groups of 8 episodes of the update")
    return report.chosen(options, engines=["transformers"], repeats=2, episodes=[1, 16], new_tokens=8, groups=2)


def prompts(episodes: int, seed: int, vocabulary: int) -> list[list[int]]:
    """Random ids, the same for each episode of a group."""
    rng = random.Random(seed)
    own = [[rng.randrange(vocabulary) for _ in range(PROMPT)] for _ in range(-(-episodes // GROUP))]
    return [own[episode // GROUP] for episode in range(episodes)]


@contextmanager
def timed(times: Times, what: str) -> Iterator[None]:
    """Add how long the work of the context takes in this process."""
    begun, cpu = time.perf_counter(), time.process_time()
    yield
    times.setdefault(what, []).append((time.perf_counter() - begun, time.process_time() - cpu))


def measure_machine(times: Times) -> None:
    import torch

    read = torch.ones(BYTES // 4)
    left, right = (torch.ones(SIDE, SIDE) for _ in range(2))
    with torch.inference_mode(), timed(times, "reading"):
        read.amax()
    with torch.inference_mode(), timed(times, "products"):
        for _ in range(PRODUCTS):
            left @ right


def rates(times: Times) -> list[tuple[float, float]]:
    """Bytes and FLOPs a processor second of this machine, measurement by measurement."""
    pairs = zip(times["reading"], times["products"], strict=True)
    return [(BYTES / read, 2 * SIDE**3 * PRODUCTS / product) for (_, read), (_, product) in pairs]


def rollout_limit(size: ModelSize, episodes: int, options: argparse.Namespace, bandwidth: float, rate: float) -> float:
    """Processor seconds."""
    weights = size.parameters - size.root + size.head
    attention = 4 * size.layers * size.heads * size.head_size
    step = episodes * (2 * weights + attention * (PROMPT + options.new_tokens / 2))
    context = PROMPT * (2 * (size.parameters - size.root) + attention * PROMPT / 2) * -(-episodes // GROUP)
    return context / rate + options.new_tokens * max(step / rate, 4 * weights / bandwidth)


def update_flops(size: ModelSize, groups: int) -> float:
    """Of forward and backward passes, each token computed once: a group shares its prompt."""
    own = 2 * ACTION + OBSERVATION
    tokens, actions = groups * (PROMPT + GROUP * own), groups * GROUP * 2 * ACTION
    seen = groups * (PROMPT**2 / 2 + GROUP * own * (PROMPT + own / 2))
    attention = 4 * size.layers * size.heads * size.head_size * seen
    return 3.0 * (2 * (size.parameters - size.root) * tokens + 2 * size.head * actions + attention)


async def rollouts(options: argparse.Namespace, size: ModelSize, vocabulary: int) -> list[dict[str, Any]]:
    from agent_r1_core import EngineModel, Request, Sampling
    from agent_r1_core.errors import AgentR1Error
    from agent_r1_core.plugins import Registry

    times, sampling = Times(), Sampling(max_new_tokens=options.new_tokens)
    engines: dict[str, Any] = {}
    for name in options.engines:
        engine = Registry.discover().create("engine", {"name": name, "max_episodes": max(options.episodes)})
        try:
            await engine.start(EngineModel(folder=str(options.model), dtype="float32"))
            engines[name] = engine
        except AgentR1Error as error:
            print(f"{name} is left out: {error}", flush=True)
    for repeat in range(options.repeats + 1):
        if repeat == 1:
            times.clear()  # the first warms up
        measure_machine(times)
        for episodes in options.episodes:
            contexts = prompts(episodes, 1000 * repeat + episodes, vocabulary)
            requests = [Request(tuple(ids), sampling, seed=number) for number, ids in enumerate(contexts)]
            for name, engine in engines.items():
                with timed(times, f"{name}/{episodes}"):
                    await engine.generate_batch(requests)
    for engine in engines.values():
        await engine.close()
    rows: list[dict[str, Any]] = []
    for episodes in options.episodes:
        limits = [rollout_limit(size, episodes, options, *one) for one in rates(times)]
        sampled = float(episodes * options.new_tokens)
        row: dict[str, Any] = {"episodes": episodes, "limit tokens/cpu s": sampled / statistics.median(limits)}
        for name in engines:
            own = times[f"{name}/{episodes}"]
            seconds, cpu = map(statistics.median, zip(*own, strict=True))
            row |= {f"{name} tokens/s": sampled / seconds, f"{name} tokens/cpu s": sampled / cpu}
            row[f"{name} share"] = _share(limits, own)
        rows.append(row)
    return rows


def updates(options: argparse.Namespace, size: ModelSize, vocabulary: int) -> list[dict[str, Any]]:
    from workload import make_learner

    from agent_r1_core import Group
    from agent_r1_core.testing import make_task, make_trajectory

    rng, groups = random.Random(0), []
    for number, prompt in enumerate(prompts(GROUP * options.groups, 0, vocabulary)[::GROUP]):
        task, own = make_task(f"task-{number}"), []
        for sample in range(GROUP):
            first, seen, second = (rng.choices(range(vocabulary), k=k) for k in (ACTION, OBSERVATION, ACTION))
            pairs = [(prompt, first), (seen, second)]
            own.append(make_trajectory(pairs, task=task, sample=sample, reward=float(sample % 2)))
        groups.append(Group(task, own))
    learner = make_learner(options.model, "float32", "cpu", skip_without_gradient=False)
    times = Times()
    for repeat in range(options.repeats + 1):
        if repeat == 1:
            times.clear()
        measure_machine(times)
        with timed(times, "update"):
            learner.update(groups, 1)
    flops, own_times = update_flops(size, options.groups), times["update"]
    limits = [flops / rate for _, rate in rates(times)]
    seconds, cpu = map(statistics.median, zip(*own_times, strict=True))
    tokens = GROUP * options.groups * (PROMPT + 2 * ACTION + OBSERVATION)
    row = {"tokens": tokens, "s": seconds, "tokens/s": tokens / seconds, "GFLOP/cpu s": flops / cpu / 1e9}
    row |= {"limit GFLOP/cpu s": flops / statistics.median(limits) / 1e9, "share": _share(limits, own_times)}
    return [row]


def _share(limits: list[float], times: list[tuple[float, float]]) -> float:
    return statistics.median(limit / cpu for limit, (_, cpu) in zip(limits, times, strict=True))


def main() -> None:
    options = arguments()
    import torch

    from agent_r1_core.assembly.model_size import ModelSize
    from agent_r1_core.assembly.model_source import BUNDLED, model_shape

    options.model = options.model or BUNDLED / "tiny"
    size = ModelSize.of_folder(options.model)
    if size is None:
        raise SystemExit(f"{options.model} holds no weights in safetensors files; name a folder that does")
    torch.set_num_threads(1)
    tables: dict[str, Any] = {}
    vocabulary = int(model_shape(options.model)["vocab_size"])
    if options.only != "update":
        tables["rollout"] = asyncio.run(rollouts(options, size, vocabulary))
        report.show("Sampled tokens a second, float32", tables["rollout"])
    if options.only != "rollout":
        tables["update"] = updates(options, size, vocabulary)
        report.show("Update of the learner, float32", tables["update"])
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
