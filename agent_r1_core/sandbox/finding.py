"""Finds a backend that works on this machine, by trying it."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from importlib.util import find_spec

from agent_r1_core.errors import ConfigError
from agent_r1_core.sandbox.backends import BACKENDS, Backend, Bounds
from agent_r1_core.sandbox.box import Box, BoxEnded, BoxTimeout

_PROBE = "import os; os.read(0, 4); os.write(1, bytes(4))"
"""A guest that gives one empty answer."""


def find_backend(name: str = "auto", writable: bool = False) -> Backend:
    """The first backend that works here, or the named one.

    Args:
        name: `auto`, `bubblewrap` or `sandlock`.
        writable: only one whose guests have folders to write to.

    Raises:
        ConfigError: none works here; the sentence says why, and what to install.
    """
    problems = []
    for backend in BACKENDS.values() if name == "auto" else [BACKENDS[name]]:
        problem = "its guests have no folder to write to" if writable > backend.writable else problem_of(backend)
        if problem is None:
            return backend
        problems.append(f"{backend.name}: {problem}")
    raise ConfigError(
        f"there is no sandbox here ({'; '.join(problems)}); install bubblewrap (apt-get install bubblewrap) where user "
        "namespaces are allowed, or else sandlock (pip install 'agent-r1[sandbox]') on Linux 6.12 or newer"
    )


@cache
def problem_of(backend: Backend) -> str | None:
    """Why a backend does not work here; None if it does. Asked once in a process."""
    if sys.platform != "linux":
        return "needs Linux"
    if backend.name == "bubblewrap" and shutil.which("bwrap") is None:
        return "not installed"
    if backend.name == "sandlock" and find_spec("sandlock") is None:
        return "not installed"
    try:
        with Box(backend, _PROBE, Bounds()) as box:
            box.exchange(b"", seconds=20, most=1 << 10)
    except (BoxEnded, BoxTimeout, OSError) as error:
        return str(error) or type(error).__name__
    return None
