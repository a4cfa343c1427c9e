"""What a resumed run must share with the run that was begun: its configuration and its plugins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import RunError

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.runs.run import Run

CHANGEABLE = (
    *("training.steps", "checkpoint", "health", "trackers", "run", "engine.max_episodes"),
    *("evaluation.every", "evaluation.greedy", "evaluation.size", "evaluation.sample", "evaluation.at_start"),
    "evaluation.at_end",
)
"""What a resumed run may change: how long, and how it is watched; not what it computes, nor what its scores mean."""


def check_resumable(run: Run, resolved: ResolvedConfig, force: bool) -> None:
    """Refuse to go on with another configuration or other plugins than the run began with."""
    then, now = run.config(), resolved.dump()
    changed = _differences(then, now)
    schedule, steps = now["training"]["schedule"], now["training"]["steps"]
    if schedule != "constant" and steps != then["training"]["steps"]:
        changed.append(f"training.steps (the {schedule} schedule of its learning rate depends on it)")
    if changed:
        raise RunError(
            f"run {run.path} was begun with other values of {', '.join(changed)}; "
            f"resume it as it is: agent-r1 train {run.path} --resume"
        )
    sentences = resolved.registry.check_same(run.plugins())
    if sentences and not force:
        raise RunError(f"{'; '.join(sentences)}; go on all the same with --force")


def held_out_by(run: Run) -> Path | None:
    """The run itself where it records its held-out tasks; None where it may draw them, since nothing was trained yet.

    Raises:
        RunError: it was trained on and records none.
    """
    if run.evaluation_tasks() is not None:
        return run.path
    if run.metrics():
        raise RunError(
            f"run {run.path} has lost its evaluation_tasks.json, which says what it does not train on; put it back"
        )
    return None


def hardware_choices(saved: dict[str, Any]) -> dict[str, Any]:
    """Hardware choices that the run made when it began; measuring again might choose otherwise."""
    return {
        "threads": saved["threads"],
        "model.dtype": saved["model"]["dtype"],
        "model.device": saved["model"]["device"],
    }


def _differences(then: dict[str, Any], now: dict[str, Any], prefix: str = "") -> list[str]:
    """Keys whose values differ, beside those that may."""
    found = []
    for key in sorted(then.keys() | now.keys()):
        name = f"{prefix}{key}"
        if name in CHANGEABLE or name == "sources" or _chosen(name, now.get(key)):
            continue
        old, new = then.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{name}.")
        elif old != new:
            found.append(name)
    return found


def _chosen(name: str, value: Any) -> bool:
    """Whether the run's own choice (threads, precision, device) stands in for `auto`."""
    return value == "auto" and name in ("threads", "model.dtype", "model.device")
