"""What the worlds model does by itself: how much of its play is legal, and how often it succeeds by chance."""

from __future__ import annotations

from pathlib import Path

from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.training.api import evaluate, resolve

SIZE = 200
HELD_OUT = 1_000_000
WORLDS: dict[str, str] = {
    "frozen_lake": "{name: frozen_lake, view: around, max_turns: 12}",
    "sokoban": "{name: sokoban, max_turns: 10}",
    "bandit": "{name: bandit}",
    "countdown": "{name: countdown}",
}
"""The environments of the measurements, as in a recipe."""


def measure(folder: Path, size: int = SIZE) -> dict[str, float]:
    """Share of legal turns and share of successes at temperature 1, by world, on held-out seeds; an episode each."""
    out: dict[str, float] = {}
    for name, env in WORLDS.items():
        overrides = [
            *(f"model.name={folder}", "model.dtype=float32", "threads=1", f"env={env}", "tools=[]", "rewards=[]"),
            f"tasks={{train: {{name: seeds}}, eval: {{name: seeds, first: {HELD_OUT}, size: {size}}}}}",
            *("evaluation.greedy=false", "engine.max_new_tokens=32"),
        ]
        found, _ = evaluate(EvaluationPlan(resolve(None, overrides, training=False)))
        turns = [turn for trajectory in found.trajectories for turn in trajectory.turns]
        out[f"legal turns, {name}"] = sum(not turn.errors for turn in turns) / len(turns)
        out[f"success, {name}"] = found.result.metrics["success"].mean
    return out
