"""What a user keeps outside of recipes and runs: agent-r1's folders, and which plugins are off."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """The folder of what can be computed again, such as indexes: `AGENT_R1_CACHE`, else `~/.cache/agent-r1`."""
    return Path(os.environ.get("AGENT_R1_CACHE") or Path.home() / ".cache" / "agent-r1")


def state_dir() -> Path:
    """The folder of what this user decided: `AGENT_R1_STATE`, else `~/.local/state/agent-r1`."""
    return Path(os.environ.get("AGENT_R1_STATE") or Path.home() / ".local" / "state" / "agent-r1")


def disabled_plugins() -> set[str]:
    """The plugins not to import: names in `AGENT_R1_DISABLE_PLUGINS`, separated by commas; workers inherit it."""
    names = (name.strip() for name in os.environ.get("AGENT_R1_DISABLE_PLUGINS", "").split(","))
    return {name for name in names if name}
