"""Checks that a resumed run has the configuration and the plugins with which it started."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import RunError
from agent_r1_core.runs.run import Run

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig

CHANGEABLE = (
    *("training.steps", "checkpoint", "health", "trackers", "run", "engine.max_episodes"),
    *("evaluation.every", "evaluation.greedy", "evaluation.size", "evaluation.sample", "evaluation.at_start"),
    "evaluation.at_end",
)
"""What a resumed run may change: its length and how it is watched, but not what it computes or what its scores mean."""


def check_resumable(run: Run, resolved: ResolvedConfig, force: bool) -> None:
    """Refuse to resume with another configuration or other plugins.

    Raises:
        RunError: a setting differs that may not; or a plugin differs, without `force`.
    """
    then, now = run.config(), resolved.dump()
    changed = _differences(then, now, resolved.sources)
    schedule, steps = now["training"]["schedule"], now["training"]["steps"]
    if schedule != "constant" and steps != then["training"]["steps"]:
        changed.append(f"training.steps (the {schedule} schedule of its learning rate depends on it)")
    if changed:
        raise RunError(
            f"run {run.path} started with other values of {', '.join(changed)}; "
            f"resume it as it is: agent-r1 train {run.path} --resume"
        )
    sentences = resolved.registry.check_same(run.plugins())
    if sentences and not force:
        raise RunError(f"{'; '.join(sentences)}; use --force to continue anyway")


def recorded_plugins(path: Path) -> list[dict[str, Any]]:
    """The plugins of the run at `path`; empty for one that was stopped before it recorded them.

    Raises:
        RunError: the record is damaged.
    """
    if not (path / "plugins.json").is_file():
        return []
    try:
        plugins = Run.open(path).plugins()
        if all({"name", "status", "value", "file_hash", "components"} <= plugin.keys() for plugin in plugins):
            return plugins
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise RunError(f"{path / 'plugins.json'} is damaged, which lists the plugins of the run; restore the file")


def check_plugin_files(recorded: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to resume with local plugin files that have changed, before any of them is imported.

    Raises:
        RunError: a file has another content than when the run began.
    """
    for plugin in recorded:
        file = Path(str(plugin["value"]))
        if plugin["file_hash"] is None or not file.is_file():
            continue  # a file that is gone is reported where the configuration names it
        now = hashlib.sha256(file.read_bytes()).hexdigest()
        if now != plugin["file_hash"]:
            raise RunError(
                f"plugin {plugin['name']!r} has changed since the run began: file hash {plugin['file_hash']} became "
                f"{now}; use --force to continue anyway"
            )


def held_out_by(run: Run) -> Path | None:
    """The run itself if it recorded its held-out tasks; None if it may still draw them, since nothing was trained.

    Raises:
        RunError: the run was trained but has no record.
    """
    if run.evaluation_tasks() is not None:
        return run.path
    if run.metrics():
        raise RunError(
            f"run {run.path} has lost its evaluation_tasks.json, which lists its held-out tasks; restore the file"
        )
    return None


def hardware_choices(saved: dict[str, Any]) -> dict[str, Any]:
    """The hardware choices of the first start; measuring again might choose differently."""
    return {
        "threads": saved["threads"],
        "model.dtype": saved["model"]["dtype"],
        "model.device": saved["model"]["device"],
    }


def _differences(then: dict[str, Any], now: dict[str, Any], set_now: Collection[str], prefix: str = "") -> list[str]:
    """Keys whose values differ, except those that may. A key that the run's record lacks, since agent-r1 had no such
    option then, differs only where somebody sets it now."""
    different = []
    for key in sorted(then.keys() | now.keys()):
        name = f"{prefix}{key}"
        if name in CHANGEABLE or name == "sources" or _chosen(name, now.get(key)):
            continue
        if key not in then and not any(one == name or one.startswith(f"{name}.") for one in set_now):
            continue
        old, new = then.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            different += _differences(old, new, set_now, f"{name}.")
        elif old != new:
            different.append(name)
    return different


def _chosen(name: str, value: Any) -> bool:
    """Whether `auto` stands for a choice that the run has made (threads, precision, device)."""
    return value == "auto" and name in ("threads", "model.dtype", "model.device")
