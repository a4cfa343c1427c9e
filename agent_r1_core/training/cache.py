"""The cache folder: what may be computed again, and is kept because that takes a while."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Where indexes and measurements are kept: `AGENT_R1_CACHE`, else `~/.cache/agent-r1`."""
    return Path(os.environ.get("AGENT_R1_CACHE") or Path.home() / ".cache" / "agent-r1")
