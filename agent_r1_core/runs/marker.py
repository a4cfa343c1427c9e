"""What tells that a folder is a run: its `run.json`."""

from __future__ import annotations

from pathlib import Path

from agent_r1_core.opening import read_json

MARKER = "run.json"
KIND = "agent-r1 run"
FOLDERS = ("trajectories", "checkpoints", "evaluations")
"""The folders that every run has."""


def is_run(path: Path) -> bool:
    try:
        return bool(read_json(path / MARKER).get("kind") == KIND)
    except (OSError, ValueError, AttributeError):
        return False
