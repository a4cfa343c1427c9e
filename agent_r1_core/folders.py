"""The folders that agent-r1 keeps outside of runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """The folder of what can be computed again, such as indexes: `AGENT_R1_CACHE`, else `~/.cache/agent-r1`."""
    return Path(os.environ.get("AGENT_R1_CACHE") or Path.home() / ".cache" / "agent-r1")


def state_dir() -> Path:
    """The folder of what this user decided: `AGENT_R1_STATE`, else `~/.local/state/agent-r1`."""
    return Path(os.environ.get("AGENT_R1_STATE") or Path.home() / ".local" / "state" / "agent-r1")
