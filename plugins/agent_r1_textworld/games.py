"""Games by seed: made once by `tw-make`, in seconds, and kept in the cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_r1_core import EpisodeError, cache_dir
from agent_r1_core.opening import open_to_write

OPTIONS = (
    *("level", "rewards", "goal", "test", "recipe", "recipe-seed", "take", "go", "open", "cook", "cut", "drop"),
    *("split", "world-size", "nb-objects", "theme", "include-adj", "blend-descriptions", "ambiguous-instructions"),
    *("only-last-action", "blend-instructions", "entity-numbering", "nb-parallel-quests", "quest-length"),
    *("quest-breadth", "quest-min-length", "quest-max-length", "quest-min-breadth", "quest-max-breadth"),
    *("quest-min-depth", "quest-max-depth"),
)
"""Those that say what game `tw-make` makes; `--third-party` would run a file."""
_MAKING = threading.Semaphore(os.cpu_count() or 1)


def game_file(python: str, game: str, options: Mapping[str, Any], seed: int, seconds: float) -> Path:
    """The file of a game; it is made where it is not there yet.

    Raises:
        EpisodeError: it cannot be made, or not in time.
    """
    named = hashlib.sha256(json.dumps([str(python), game, dict(options)], sort_keys=True).encode()).hexdigest()[:16]
    folder = cache_dir() / "textworld" / f"{game}-{named}"
    made = folder / str(seed) / "game.z8"
    if made.exists():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    lock = open_to_write(folder / f"{seed}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other episodes of its group wait, in other processes, too
        if not made.exists():
            with _MAKING, tempfile.TemporaryDirectory(dir=folder) as place:
                (new := Path(place, "new")).mkdir()
                _make([python, str(maker(python)), game, *_words(options)], seed, new, seconds)
                new.rename(made.parent)
    finally:
        os.close(lock)
    return made


def maker(python: str) -> Path:
    """The program that makes games."""
    return Path(python).with_name("tw-make")


def option_name(name: str) -> str:
    """As `tw-make` writes it."""
    return name.replace("_", "-")


def _words(options: Mapping[str, Any]) -> list[str]:
    """As on the command line of `tw-make`."""
    words = []
    for name, value in options.items():
        if value is not False:
            words += [f"--{option_name(name)}"] + ([] if value is True else [str(value)])
    return words


def _make(command: list[str], seed: int, place: Path, seconds: float) -> None:
    command = [*command, "--seed", str(seed), "--output", f"{place}/game.z8", "--silent"]
    passed = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    try:
        code, said = _run(command, {**passed, "PYTHONHASHSEED": "0"}, seconds)
    except subprocess.TimeoutExpired:
        raise EpisodeError(f"tw-make did not make the game of seed {seed} within {seconds:g} seconds") from None
    if code != 0 or not (place / "game.z8").exists():
        last = (said.strip().splitlines() or ["it says nothing"])[-1]
        raise EpisodeError(f"tw-make cannot make the game of seed {seed}: {last}; look at env.game and env.options")


def _run(command: list[str], environment: Mapping[str, str], seconds: float) -> tuple[int, str]:
    """Its exit status, and what it wrote as errors; when time is over, all that it started is killed."""
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdin=null, stdout=null, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            _, said = process.communicate(timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, said
