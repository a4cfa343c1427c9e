"""A training run small enough to be done dozens of times: a random model, sums, a reward that varies."""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contexts import CONTEXTS

from agent_r1_core import train
from agent_r1_core.evaluation.listener import Listener, Silence
from agent_r1_core.runs.run import Run

PLUGIN = Path(__file__).parents[1] / "fixtures/end_to_end/vowels.py"
REWARD = PLUGIN.read_text()


class Notes(Silence):
    """A listener that remembers what was said, and of which episodes it heard."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.heard: list[tuple[int, int, str]] = []

    def note(self, text: str) -> None:
        self.said.append(text)

    def episodes(self, done: int, total: int, of: str) -> None:
        self.heard.append((done, total, of))


class Terminated(Silence):
    """Ends the process by SIGTERM after the second step, as a cluster does."""

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        if step == 2:
            signal.raise_signal(signal.SIGTERM)


def overrides(folder: Path, steps: int, **changed: Any) -> list[str]:
    """The run's overrides; the model is in `folder/model`."""
    keys: dict[str, Any] = {
        "model.name": folder / "model",
        "tasks.train": "{name: arithmetic, size: 7}",
        "tasks.eval": "{name: arithmetic, split: eval, size: 2}",
        "env": "{name: tool_calling, max_turns: 2, max_tokens: 200, system_prompt: ''}",
        "tools": "[calculator]",
        "rewards": "[vowels]",
        "engine.max_new_tokens": 6,
        "training.steps": steps,
        "training.lr": "1e-2",
        "evaluation.every": 2,
        "training.tasks_per_step": 2,
        "training.samples_per_task": 3,
        "training.epochs": 2,
        "training.minibatches": 2,
        "deterministic": "true",
        "checkpoint": "{every: 1, keep: 1, best: eval/reward/vowels}",
        "run.dir": folder / "runs",
        **{key.replace("__", "."): value for key, value in changed.items()},
    }
    return [f"{key}={value}" for key, value in keys.items()]


def rewritten(context: str) -> dict[str, Any]:
    """Changes under which a context strategy has something to do."""
    return {
        "context": json.dumps(CONTEXTS[context]),
        "checkpoint": "{every: 1, keep: 1, best: null}",
        "evaluation__at_start": "false",
        "evaluation__at_end": "false",
        "env": "{name: tool_calling, max_turns: 4, max_tokens: 700, system_prompt: ''}",
    }


def run_once(
    folder: Path,
    name: str,
    steps: int,
    resume: bool = False,
    force: bool = False,
    listener: Listener | None = None,
    **changed: Any,
) -> Run:
    """Train the small run under a name; `changed` are overrides."""
    given = [*overrides(folder, steps, **changed), f"run.name={name}"]
    return train("default", given, plugins=[PLUGIN], resume=resume, force=force, listener=listener)


def fingerprint(run: Run) -> dict[str, Any]:
    """Everything that a run leaves behind, without times: policies, metrics, trajectories, evaluations."""
    numbers = {step: run.read_token_numbers(step) for step in run.trajectory_steps()}
    policies = [path for name in ("model", "checkpoints") for path in (run.path / name).rglob("*") if path.is_file()]
    return {
        "files": {str(path.relative_to(run.path)): hashlib.sha256(path.read_bytes()).hexdigest() for path in policies},
        "metrics": [_timeless(line) for line in run.metrics()],
        "alarms": run.alarms(),
        "trajectories": {step: [_told(one) for one in run.read_trajectories(step)] for step in numbers},
        "advantages": {step: [one["advantages"] for one in found] for step, found in numbers.items()},
        "numbers": {step: json.dumps(found) for step, found in numbers.items()},
        "evaluations": {name: found["metrics"] for name, found in run.evaluations().items()},
    }


def _timeless(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if not key.startswith("time/") and "per_second" not in key}


def _told(trajectory: Any) -> str:
    segments = [(segment.ids, segment.mask, segment.logprobs) for segment in trajectory.segments]
    return json.dumps([trajectory.id, segments, trajectory.rewards, trajectory.seed, trajectory.policy_version])
