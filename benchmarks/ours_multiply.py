"""The agent-r1 side of the comparison with TRL, run in a fresh process.

    python ours_multiply.py --model FOLDER --steps 8 --rollouts 64 --latency 0.05 --dtype bfloat16

Trains by the recipe multiply.yaml. A step is `time/step` of the run's metrics: rollout, rewards, gradient, optimiser,
new weights in the engine, and the trajectories written to disk; no evaluation and no checkpoint falls into it. The
last line is JSON: seconds and processor seconds of every step, seconds of its parts, and means over the steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from multiply import Multiply

from agent_r1_core import train
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.evaluation.listener import Silence

RECIPE = Path(__file__).resolve().parent / "multiply.yaml"
COMPLETION = 96
MEANS = {
    "reward": "reward/mean",
    "without_spread": "health/groups_without_spread",
    "action_tokens": "episode/action_tokens",
    "calls": "tools/calls",
    "turns": "episode/turns",
}


class StepEnds(Silence):
    """The processor time of this process when training begins, and after each step."""

    def __init__(self) -> None:
        self.cpu: list[float] = []

    def begin(self, done: int, steps: int) -> None:
        self.cpu.append(time.process_time())

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self.cpu.append(time.process_time())


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--steps", type=int, default=8)
    options.add_argument("--rollouts", type=int, default=64, help="a multiple of 8")
    options.add_argument("--latency", type=float, default=0.0, help="seconds of a call")
    options.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    options.add_argument("--keep-all", action="store_true", help="compute groups without spread, too")
    return options.parse_args()


def main() -> None:
    options = arguments()
    tokenizer, ends = ChatTokenizer.from_folder(options.model), StepEnds()
    asked: Any = [{"role": "system", "content": "Use tools."}, {"role": "user", "content": "What is 3 * 4?"}]
    # Of every question: each digit is one token.
    prompt = len(tokenizer.encode(tokenizer.template.render(asked, [Multiply().schema()])))
    with tempfile.TemporaryDirectory() as folder:
        overrides = [
            f"model.name={options.model}",
            f"model.dtype={options.dtype}",
            "model.device=cpu",
            f"tools=[{{name: multiply, latency: {options.latency}}}]",
            f"env.max_tokens={prompt + COMPLETION}",
            f"training.steps={options.steps}",
            f"training.tasks_per_step={options.rollouts // 8}",
            f"training.skip_without_gradient={str(not options.keep_all).lower()}",
            f"run.dir={folder}",
        ]
        lines = train(RECIPE, overrides, listener=ends).metrics()
    found: dict[str, Any] = {
        own: statistics.fmean(line[name] for line in lines if name in line) for own, name in MEANS.items()
    }
    parts = {part: [line[f"time/{part}"] for line in lines] for part in ("rollout", "update", "weights", "tools")}
    seconds = {
        "seconds": [line["time/step"] for line in lines],
        "cpu": [after - before for before, after in pairwise(ends.cpu)],
    }
    print(json.dumps({**seconds, **parts, **found, "prompt_tokens": prompt}))


if __name__ == "__main__":
    main()
