"""Corrupts files of every kind that is read, and demands a value, a fallback, or one sentence."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from agent_r1_core import train
from agent_r1_core.errors import AgentR1Error
from agent_r1_core.evaluation.listener import Silence
from attacks.corruption import corrupted
from attacks.file_kinds import kinds, vouch
from attacks.kills import SETTINGS
from attacks.outcome import Outcome, Plan

_IN_OPEN = 0x20
_LIBC = ctypes.CDLL(None, use_errno=True)
FILES = 1900
RESUMES = 100
"""Corrupted files of checkpoints and records with which a run is resumed."""
LONGEST = 1500
"""Characters that a sentence may have, paths and lists of what is allowed included."""


class Openings:
    """The openings of a file since the context began."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def happened(self) -> bool:
        """Whether there was one since this was asked last."""
        try:
            return bool(os.read(self._handle, 4096))
        except BlockingIOError:
            return False


@contextmanager
def openings(path: Path) -> Iterator[Openings]:
    """Watch a file, for as long as the context lasts."""
    handle = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if handle < 0 or _LIBC.inotify_add_watch(handle, os.fsencode(path), _IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        yield Openings(handle)
    finally:
        os.close(handle)


def corrupt_files(plan: Plan) -> Outcome:
    """Every kind of file in turn, corrupted in a way that the seed draws."""
    rng, outcome = random.Random(plan.seed), Outcome("files")
    run = train("default", [*SETTINGS, f"run.dir={plan.folder}", "run.name=run"], listener=Silence())
    all_kinds = kinds(plan.folder, run)
    for number in range(plan.times(FILES)):
        kind = all_kinds[number % len(all_kinds)]
        whole, name = kind.path.read_bytes(), str(kind.path.relative_to(plan.folder))
        way = _corrupt(kind.path, rng)
        if kind.vouched:
            vouch(kind.path)
        outcome.attack(f"what reads {name}", _try(outcome, f"{name} {way}", kind.path, partial(kind.read, kind.path)))
        kind.path.write_bytes(whole)
    records = [path for path in sorted(run.path.rglob("*")) if path.is_file() and path.name != ".lock"]
    copy = plan.folder / "copy"
    for _ in range(plan.times(RESUMES)):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run.path, copy)
        path = copy / rng.choice(records).relative_to(run.path)
        way = _corrupt(path, rng)
        if rng.random() < 0.5:
            vouch(path)
            way += ", its checksums made anew"
        what = f"{path.relative_to(plan.folder)} {way}, resumed"
        outcome.attack("a resume", _try(outcome, what, path, partial(_resume, copy)))
    return outcome


def _corrupt(path: Path, rng: random.Random) -> str:
    """Corrupt a file; returns what was done."""
    way, content = corrupted(path.read_bytes(), rng)
    path.write_bytes(content)
    return way


def _resume(run: Path) -> object:
    return train(run, ["training.steps=6"], resume=True, listener=Silence())


def _try(outcome: Outcome, what: str, path: Path, read: Callable[[], object]) -> bool:
    """Read, and judge what came of it; returns whether the file at `path` was opened."""
    with openings(path) as opened:
        try:
            read()
            outcome.counts["read"] += 1
        except AgentR1Error as error:
            outcome.counts["refused"] += 1
            text = str(error)
            if len(text) > LONGEST or not text.replace("\n", "").isprintable():
                outcome.faults.append(f"{what}: no readable sentence: {text[:200]!r}")
        except BaseException as error:
            outcome.faults.append(f"{what}: {type(error).__name__}: {str(error)[:200]!r}")
        return opened.happened()
