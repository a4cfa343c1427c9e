"""Environments with packages that conflict with ours, or that only a test needs; each is made once."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

MOST_SECONDS = 600
"""For an installation."""


def install(*command: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=MOST_SECONDS)
    assert done.returncode == 0, f"{words} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"


def made(folder: Path, wanted: Path, make: Callable[[Path], None]) -> Path:
    """The environment in `folder` with what the file `wanted` lists; one worker makes it, and the others wait."""
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready, text = folder / "ready", wanted.read_text()
        if not ready.exists() or ready.read_text() != text:
            make(folder)
            ready.write_text(text)
    return folder


def python_with(requirements: Path, folder: Path, *options: str) -> Path:
    """A Python with the requirements, and without agent-r1."""

    def make(folder: Path) -> None:
        venv.create(folder, with_pip=False, clear=True)
        pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--quiet"]
        wheels = ["--disable-pip-version-check", "--only-binary", ":all:", *options]
        install(*pip, "install", *wheels, "--requirement", requirements)

    return made(folder, requirements, make) / "bin" / "python"
