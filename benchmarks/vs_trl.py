"""How many times as fast as TRL's GRPOTrainer is a training step, on the same machine, model and task?

    python benchmarks/vs_trl.py --venv .trl-venv            # makes the environment, with pinned packages, on first use
    python benchmarks/vs_trl.py --trl-python PATH           # or an environment that has TRL already
    python benchmarks/vs_trl.py --venv .trl-venv --model FOLDER --dtypes float32 --rollouts 16

Both sides train the same tiny model folder on "What is a * b?" with the tool `multiply`: 64 episodes of two turns a
step (8 questions x 8 samples), at most 96 tokens after the prompt, group advantages, token mean, no KL, learning rate
1e-4. Every measurement is a fresh process with one thread; the sides take turns, and medians over the steps after the
first two of each process are compared. peer_trl.py and ours_multiply.py say what a step holds.

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
import sys
import venv
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import report

PINS = ("torch==2.13.0", "trl==1.16.0", "transformers==5.23.0", "accelerate==1.15", "datasets==5.2.0")
"""Torch comes first and alone, so that the others do not decide which build of it."""
MEANS = ("without_spread", "calls", "action_tokens", "reward")
SIDES = ("agent-r1", "agent-r1, all groups", "TRL")
TEACHING = ("--steps", 4, "--batch", 4, "--lr", 1e-4)
"""Of a real model: its loss falls from 0.7 to 0.1 in the first of these steps."""


def arguments() -> argparse.Namespace:
    options = report.parser(__doc__, "vs_trl")
    add_peer(options)
    options.add_argument("--model", type=Path, help="folder of a real model; else the tiny one, made if missing")
    options.add_argument("--steps", type=int, default=8, help="training steps per process")
    options.add_argument("--repeats", type=int, default=3, help="processes per side")
    options.add_argument("--rollouts", type=int, default=64, help="episodes of a step, a multiple of 8")
    options.add_argument("--latencies", type=float, nargs="+", default=[0.0, 0.05], help="of the tool, seconds")
    options.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    chosen = options.parse_args()
    if chosen.quick:
        chosen.steps, chosen.repeats, chosen.dtypes = 4, 1, ["float32"]
    return chosen


def add_peer(options: argparse.ArgumentParser) -> None:
    """The options that say where TRL is."""
    where = options.add_mutually_exclusive_group(required=True)
    where.add_argument("--trl-python", type=Path, help="Python of an environment that has TRL")
    where.add_argument("--venv", type=Path, help="folder of such an environment, created if missing")


def peer_python(options: argparse.Namespace) -> Path:
    """Python of TRL's environment, which is created if missing."""
    if options.trl_python is not None:
        given: Path = options.trl_python.absolute()
        return given
    python = options.venv.absolute() / "bin" / "python"
    if not python.exists():
        print(f"making {options.venv} with {', '.join(PINS)}", flush=True)
        venv.create(options.venv, with_pip=True)
        for pins in (PINS[:1], PINS):
            subprocess.run([python, "-m", "pip", "install", "--quiet", *pins], check=True)
    peer: Path = python
    return peer


def at_peer(peer: Path, script: str, *arguments: Any) -> dict[str, Any]:
    """What a script of this folder says in a fresh process of TRL's environment, which has nothing of ours."""
    return report.fresh([peer, report.HOME / script, *arguments], {"PYTHONPATH": str(report.HOME)})


def measure(side: str, peer: Path, model: Path, options: argparse.Namespace, dtype: str, latency: float) -> Any:
    """Run one process of a side."""
    common = ["--model", model, "--steps", options.steps, "--rollouts", options.rollouts, "--latency", latency]
    if side == "TRL":
        precision = ["--bf16"] if dtype == "bfloat16" else []
        return at_peer(peer, "peer_trl.py", "multiply", *common, *precision)
    more = ["--keep-all"] if side.endswith("all groups") else []
    script = report.HOME / "ours_multiply.py"
    return report.fresh([sys.executable, script, *common, "--dtype", dtype, *more])


def compare(runs: Mapping[str, list[dict[str, Any]]], rollouts: int) -> list[dict[str, Any]]:
    """The rows of one setting: medians over the warm steps of all processes of a side, TRL's last, and their ratios."""
    rows: list[dict[str, Any]] = []
    for side, own in runs.items():
        names = ("seconds", "cpu", *(("rollout", "update") if side != "TRL" else ()))
        medians = {name: statistics.median(step for run in own for step in report.warm(run[name])) for name in names}
        means = {name: statistics.fmean(run[name] for run in own) for name in MEANS}
        rows.append(
            {
                "side": side,
                "s/step": medians["seconds"],
                "cpu s/step": medians["cpu"],
                "episodes/s": rollouts / medians["seconds"],
                "TRL / side": None,
                "TRL / side, cpu": None,
                "without spread": means["without_spread"],
                "calls": means["calls"] / (1 if side == "TRL" else rollouts),
                "action tokens": means["action_tokens"],
                "reward": means["reward"],
                "rollout s": medians.get("rollout"),
                "update s": medians.get("update"),
            }
        )
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


def title(dtype: str, latency: float) -> str:
    return f"{dtype}, tool {'instant' if not latency else f'{1000 * latency:.0f} ms'}"


def main() -> None:
    options = arguments()
    peer = peer_python(options)
    model = model_folder(options.model, peer)
    sides = SIDES[1:] if options.model else SIDES
    settings = [(dtype, latency) for dtype in options.dtypes for latency in options.latencies]
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {title(*one): defaultdict(list) for one in settings}
    for repeat in range(options.repeats):
        for dtype, latency in settings:
            for side in sides:
                found = measure(side, peer, model, options, dtype, latency)
                runs[title(dtype, latency)][side].append(found)
                median = statistics.median(report.warm(found["seconds"]))
                print(f"{repeat + 1}/{options.repeats}  {title(dtype, latency)}  {side}: {median:.3f} s", flush=True)
    tables = {name: compare(own, options.rollouts) for name, own in runs.items()}
    for name, rows in tables.items():
        report.show(f"{options.rollouts} episodes a step, {name}", rows)
    report.save(options.out, options, {"tables": tables, "runs": runs})


if __name__ == "__main__":
    main()
