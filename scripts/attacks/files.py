"""Corrupts files of every kind that is read, and demands a value, a fallback, or one sentence."""

from __future__ import annotations

import ctypes
import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from attacks.file_kinds import kinds, vouch
from attacks.kills import SETTINGS
from attacks.outcome import Outcome, Plan

from agent_r1_core import train
from agent_r1_core.config.yaml_text import dump, parse
from agent_r1_core.errors import AgentR1Error, ConfigError
from agent_r1_core.evaluation.listener import Silence

_IN_OPEN = 0x20
_LIBC = ctypes.CDLL(None, use_errno=True)
FILES = 1900
RESUMES = 100
"""Corrupted files of checkpoints and records with which a run is resumed."""
LONGEST = 1500
"""Characters that a sentence may have, paths and lists of what is allowed included."""


@contextmanager
def _openings(path: Path) -> Iterator[Callable[[], bool]]:
    """Whether a file was opened since this was asked last, for as long as the context lasts."""

    def happened() -> bool:
        try:
            return bool(os.read(handle, 4096))
        except BlockingIOError:
            return False

    handle = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if handle < 0 or _LIBC.inotify_add_watch(handle, os.fsencode(path), _IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        yield happened
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


def _resume(run: Path) -> object:
    return train(run, ["training.steps=6"], resume=True, listener=Silence())


def _try(outcome: Outcome, what: str, path: Path, read: Callable[[], object]) -> bool:
    """Read, and judge what came of it; returns whether the file at `path` was opened."""
    with _openings(path) as opened:
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
        return opened()


def _corrupt(path: Path, rng: random.Random) -> str:
    """Change the bytes of a file in one of many ways; returns what was done."""
    whole = path.read_bytes()
    at = rng.randrange(len(whole) + 1)
    noise = rng.randbytes(rng.randrange(1, 64))
    ways: dict[str, Callable[[], bytes]] = {
        "cut": lambda: whole[:at],
        "with flipped bits": lambda: _flipped(whole, rng),
        "with noise": lambda: whole[:at] + noise + whole[at:],
        "without a piece": lambda: whole[:at] + whole[at + len(noise) :],
        "empty": lambda: b"",
        "of zeros": lambda: bytes(len(whole)),
        "of noise": lambda: noise,
        "doubled": lambda: whole + whole,
        "as a list": lambda: b"[]",
        "as null": lambda: b"null",
        "as a number": lambda: b"1" * 5000,
        "as deep brackets": lambda: b"[" * 5000,
        "as nested keys": lambda: b'{"a":' * 3000,
        "as a state of nothing": _state_of_nothing,
        "without a value": lambda: _changed(whole, lambda holder, key: holder.pop(key), rng),
    }
    for kind in (int, float, str, list, type(None)):
        change = partial(_put, kind=kind)
        ways[f"with {kind.__name__} for a value"] = partial(_changed, whole, change, rng)
    name = rng.choice(list(ways))
    path.write_bytes(ways[name]())
    return name


def _flipped(whole: bytes, rng: random.Random) -> bytes:
    """The file with up to four bits flipped."""
    flipped = bytearray(whole)
    for _ in range(rng.randrange(1, 5)):
        if flipped:
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _state_of_nothing() -> bytes:
    """A file by torch that holds nothing."""
    file = io.BytesIO()
    torch.save({}, file)
    return file.getvalue()


def _put(holder: Any, key: Any, kind: Callable[[], Any]) -> None:
    holder[key] = kind()


def _changed(whole: bytes, change: Callable[[Any, Any], object], rng: random.Random) -> bytes:
    """A JSON, JSON Lines or YAML file with a change at one value; any other file, cut."""
    try:
        lines = whole.decode().splitlines(keepends=True)
        one_each = len(lines) > 1 and all(line.startswith("{") for line in lines)
        number = rng.randrange(len(lines)) if one_each else 0
        before, text, after = (
            (lines[:number], lines[number], lines[number + 1 :]) if one_each else ([], whole.decode(), [])
        )
        document, write = _document(text)
    except (ValueError, ConfigError):
        return whole[: len(whole) // 2]
    places = list(_places(document))
    if not places:
        return b"{}"
    change(*rng.choice(places))
    return "".join([*before, write(document).rstrip("\n") + "\n", *after]).encode()


def _document(text: str) -> tuple[Any, Callable[[Any], str]]:
    """The value of a JSON or YAML text, and what writes it again."""
    try:
        return json.loads(text), json.dumps
    except ValueError:
        return parse(text, "the file").value, dump


def _places(value: Any) -> Any:
    """Every place in a document that holds a value: its holder and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)
