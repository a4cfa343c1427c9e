"""How many times as fast as TRL's GRPOTrainer is a training step, on the same machine, model and task?

    python benchmarks/vs_trl.py --venv .trl-venv            # makes the environment, with pinned packages, if missing
    python benchmarks/vs_trl.py --venv .trl-venv --model FOLDER --dtypes float32 --rollouts 16

Both sides train the same tiny model folder on "What is a * b?" with the tool `multiply`: 64 episodes of two turns a
step (8 questions x 8 samples), at most 96 tokens after the prompt, group advantages, token mean, no KL, learning rate
1e-4. Every measurement is a fresh process with one thread; the sides take turns, and medians over the steps after the
first two of each process are compared. peer_trl.py says what a step of TRL holds. Ours trains by multiply.yaml, and is
`time/step` of the run's metrics: rollout, rewards, gradient, optimiser, new weights in the engine, and the trajectories
written to disk; no evaluation and no checkpoint falls into it.

The rows `agent-r1, all groups` send groups without spread through the model, too, as TRL does
(training.skip_without_gradient=false): the difference to `agent-r1` is what skipping them gains. `cpu s/step` is the
processor time of a step, which other work on the machine changes less than its seconds.

--model FOLDER races on a real model instead, one whose turns end with `<|im_end|>`, as those of Qwen and SmolLM2 do.
Both sides get the same copy of it, with TRL's Qwen2.5 template, taught by a few supervised steps to call the tool: a
model that has never called one would play episodes of one turn. `calls` and `action tokens`, both per episode, show
whether the two sides did the same. All groups are computed there, since a taught model is right so often that a step of
few groups may leave nothing to learn.

On Linux, pip's own torch brings gigabytes of CUDA; let pip find a CPU build first, for instance by PIP_FIND_LINKS.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import subprocess
import tempfile
import time
import venv
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import report

PINS = ("torch==2.13.0", "trl==1.16.0", "transformers==5.23.0", "accelerate==1.15", "datasets==5.2.0")
"""Torch comes first and alone, so that the others do not decide which build of it."""
MEANS = {
    "without_spread": "health/groups_without_spread",
    "calls": "tools/calls",
    "action_tokens": "episode/action_tokens",
    "reward": "reward/mean",
}
"""What both sides tell of their episodes, and the names of our metrics."""
COMPLETION = 96
"""Tokens after the prompt, on both sides."""
SIDES = ("agent-r1", "agent-r1, all groups", "TRL")
TEACHING = ("--steps", 4, "--batch", 4, "--lr", 1e-4)
"""Of a real model: its loss falls from 0.7 to 0.1 in the first of these steps."""


def arguments() -> argparse.Namespace:
    options = report.parser(__doc__, "vs_trl")
    options.add_argument("--venv", type=Path, required=True, help="folder of TRL's environment, made if missing")
    options.add_argument("--model", type=Path, help="folder of a real model; else the tiny one, made if missing")
    options.add_argument("--steps", type=int, default=8, help="training steps per process")
    options.add_argument("--repeats", type=int, default=3, help="processes per side")
    options.add_argument("--rollouts", type=int, default=64, help="episodes of a step, a multiple of 8")
    options.add_argument("--latencies", type=float, nargs="+", default=[0.0, 0.05], help="of the tool, seconds")
    options.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    return report.chosen(options, steps=4, repeats=1, dtypes=["float32"])


def peer_python(folder: Path) -> Path:
    """Python of TRL's environment, which is created if missing."""
    python = folder.absolute() / "bin" / "python"
    if not python.exists():
        print(f"making {folder} with {', '.join(PINS)}", flush=True)
        venv.create(folder, with_pip=True)
        for pins in (PINS[:1], PINS):
            subprocess.run([python, "-m", "pip", "install", "--quiet", *pins], check=True)
    return python


def at_peer(peer: Path, script: str, *arguments: Any) -> dict[str, Any]:
    """What a script of this folder says in a fresh process of TRL's environment, which has nothing of ours."""
    return report.fresh([peer, report.HOME / script, *arguments], {"PYTHONPATH": str(report.HOME)})


def measure(side: str, peer: Path, model: Path, options: argparse.Namespace, dtype: str, latency: float) -> Any:
    if side != "TRL":
        keep_all = side.endswith("all groups")
        return report.afresh(ours, model, options.steps, options.rollouts, latency, dtype, keep_all)
    common = ["--model", model, "--steps", options.steps, "--rollouts", options.rollouts, "--latency", latency]
    return at_peer(peer, "peer_trl.py", "multiply", *common, *(["--bf16"] if dtype == "bfloat16" else []))


def ours(model: str, steps: int, rollouts: int, latency: float, dtype: str, keep_all: bool) -> dict[str, Any]:
    """Train on our side, in this process: seconds of every step and of its parts, and means over the steps.

    Args:
        keep_all: compute groups without spread, too.
    """
    from multiply import Multiply

    from agent_r1_core import train
    from agent_r1_core.chat import ChatTokenizer
    from agent_r1_core.evaluation.listener import Silence

    cpu: list[float] = []

    class StepEnds(Silence):
        """The processor time of this process when training begins, and after each step."""

        def begin(self, done: int, steps: int) -> None:
            cpu.append(time.process_time())

        def step(self, step: int, metrics: Mapping[str, float]) -> None:
            cpu.append(time.process_time())

    tokenizer = ChatTokenizer.from_folder(Path(model))
    asked: Any = [{"role": "system", "content": "Use tools."}, {"role": "user", "content": "What is 3 * 4?"}]
    # Of every question: each digit is one token.
    prompt = len(tokenizer.encode(tokenizer.template.render(asked, [Multiply().schema()])))
    with tempfile.TemporaryDirectory() as folder:
        overrides = [
            *(f"model.name={model}", f"model.dtype={dtype}", "model.device=cpu", f"run.dir={folder}"),
            *(f"tools=[{{name: multiply, latency: {latency}}}]", f"env.max_tokens={prompt + COMPLETION}"),
            *(f"training.steps={steps}", f"training.tasks_per_step={rollouts // 8}"),
            f"training.skip_without_gradient={str(not keep_all).lower()}",
        ]
        lines = train(report.HOME / "multiply.yaml", overrides, listener=StepEnds()).metrics()
    return {
        "seconds": [line["time/step"] for line in lines],
        "cpu": [after - before for before, after in pairwise(cpu)],
        **{part: [line[f"time/{part}"] for line in lines] for part in ("rollout", "update", "weights", "tools")},
        **{own: statistics.fmean(line[name] for line in lines if name in line) for own, name in MEANS.items()},
        "prompt_tokens": prompt,
    }


def compare(runs: Mapping[str, list[dict[str, Any]]], rollouts: int) -> list[dict[str, Any]]:
    """The rows of one setting: medians over the warm steps of all processes of a side, TRL's last, and their ratios."""
    rows: list[dict[str, Any]] = []
    for side, own in runs.items():
        names = ("seconds", "cpu", *(("rollout", "update") if side != "TRL" else ()))
        medians = {name: statistics.median(step for run in own for step in report.warm(run[name])) for name in names}
        means = {name: statistics.fmean(run[name] for run in own) for name in MEANS}
        row = {"side": side, "s/step": medians["seconds"], "cpu s/step": medians["cpu"]}
        row |= {"episodes/s": rollouts / medians["seconds"], "TRL / side": None, "TRL / side, cpu": None}
        row |= {"without spread": means["without_spread"], "calls": means["calls"] / (1 if side == "TRL" else rollouts)}
        row |= {"action tokens": means["action_tokens"], "reward": means["reward"]}
        rows.append(row | {f"{part} s": medians.get(part) for part in ("rollout", "update")})
    for row in rows:
        row["TRL / side"] = rows[-1]["s/step"] / row["s/step"]
        row["TRL / side, cpu"] = rows[-1]["cpu s/step"] / row["cpu s/step"]
    return rows


def model_folder(base: Path | None, peer: Path) -> Path:
    """The folder that both sides train, made if missing: the tiny model, or what teaching makes of a real one."""
    folder, teaching = report.HOME / "results" / "multiply-model", list[Any]()
    if base is not None:
        if not (base / "config.json").is_file():
            raise SystemExit(f"vs_trl.py: error: {base} holds no model; give a folder with config.json and weights")
        folder = folder.with_name(f"multiply-{hashlib.sha256(str(base.resolve()).encode()).hexdigest()[:8]}")
        teaching = ["--base", base.resolve(), *TEACHING]
    if not (folder / "config.json").is_file():
        print(f"making the model in {folder}", flush=True)
        at_peer(peer, "peer_model.py", folder, *teaching)
    return folder


def main() -> None:
    options = arguments()
    peer = peer_python(options.venv)
    model = model_folder(options.model, peer)
    sides = SIDES[1:] if options.model else SIDES
    runs: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for repeat, dtype, latency, side in product(range(options.repeats), options.dtypes, options.latencies, sides):
        found = measure(side, peer, model, options, dtype, latency)
        title = f"{dtype}, tool {'instant' if not latency else f'{1000 * latency:.0f} ms'}"
        runs[title][side].append(found)
        median = statistics.median(report.warm(found["seconds"]))
        print(f"{repeat + 1}/{options.repeats}  {title}  {side}: {median:.3f} s", flush=True)
    tables = {name: compare(own, options.rollouts) for name, own in runs.items()}
    for name, rows in tables.items():
        report.show(f"{options.rollouts} episodes a step, {name}", rows)
    report.save(options.out, options, {"tables": tables, "runs": runs})


if __name__ == "__main__":
    main()
