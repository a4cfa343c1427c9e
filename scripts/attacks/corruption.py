"""Corruption: the ways in which the bytes of a file may have changed."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from agent_r1_core.config.yaml_text import dump, parse
from agent_r1_core.errors import ConfigError


def corrupted(whole: bytes, rng: random.Random) -> tuple[str, bytes]:
    """What was done, and the result."""
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
    return name, ways[name]()


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
