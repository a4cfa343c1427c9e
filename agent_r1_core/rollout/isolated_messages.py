"""What the training process and a process of a tool send each other: frames of a call's id, a length, and JSON.

Nothing is pickled, so a reply is data, whatever the tool has done to its process.
"""

from __future__ import annotations

import json
import random
import struct
from array import array
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from typing import Any

ID_BYTES = 16
HEADER = struct.Struct(f">{ID_BYTES}sI")
"""The call's id and the length of what follows."""
LONGEST = 1 << 28
"""Most bytes of a message."""
CLOSE_SECONDS = 5.0
"""Time for a process to close its tool at the end."""


def frame(call: bytes, body: bytes) -> bytes:
    """The bytes to send for a message of the call."""
    return HEADER.pack(call, len(body)) + body


def check_length(body: bytes) -> None:
    """Refuse a message that is too long.

    Raises:
        ValueError: it is longer than `LONGEST`.
    """
    if len(body) > LONGEST:
        raise ValueError(f"{len(body)} bytes are too many to send to another process; keep less in the state")


def encode(message: Mapping[str, Any]) -> bytes:
    """The message as JSON."""
    return json.dumps(message).encode()


def pack_rng(rng: random.Random) -> list[Any]:
    """The generator's state as JSON can carry it."""
    version, words, gauss = rng.getstate()
    return [version, b2a_base64(array("I", words).tobytes(), newline=False).decode(), gauss]


def unpack_rng(rng: random.Random, packed: list[Any]) -> None:
    """Set the generator to a state that `pack_rng` packed.

    Raises:
        ValueError, TypeError: it is no such state.
    """
    version, words, gauss = packed
    rng.setstate((version, tuple(array("I", a2b_base64(words))), gauss))


def state_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What a call changed in the episode's state: the keys that it set, and those that it removed.

    Raises:
        TypeError: the state holds something that JSON cannot carry as it is.
    """
    carried = json.loads(json.dumps(after))
    if carried != after:
        raise TypeError("context.state holds what JSON cannot carry, such as a tuple or a key that is no text")
    changed = {key: value for key, value in carried.items() if key not in before or before[key] != value}
    return {"set": changed, "removed": [key for key in before if key not in carried]}


def apply_changes(state: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Apply what a call changed; what concurrent calls changed stays."""
    for key in changes["removed"]:
        state.pop(key, None)
    state.update(changes["set"])
