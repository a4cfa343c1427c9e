"""The cache folder, for results that can be computed again but take a while."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """The folder of indexes and measurements: `AGENT_R1_CACHE`, else `~/.cache/agent-r1`."""
    return Path(os.environ.get("AGENT_R1_CACHE") or Path.home() / ".cache" / "agent-r1")
