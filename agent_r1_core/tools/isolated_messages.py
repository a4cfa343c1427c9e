"""What the training process and a process of a tool send each other: frames of a call's id, a length, and JSON.

Nothing is pickled, so a reply is data, whatever the tool has done to its process. What it takes to read one is known
from its bytes before anything is read: each episode has a share of the memory that all of them may take.
"""

from __future__ import annotations

import json
import math
import random
import struct
from array import array
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_r1_core.contracts.json_text import check_json_size
from agent_r1_core.contracts.tool_format import ToolResult
from agent_r1_core.tools.answer import clean_text

ID_BYTES = 16
HEADER = struct.Struct(f">{ID_BYTES}sI")
"""The call's id and the length of what follows."""
MOST_MEMORY = 1 << 23
"""Most bytes of memory that reading a message may take: some 1.3 MB of text, 65,000 numbers or 15,000 small objects."""
ALL_MEMORY = 1 << 30
"""Most bytes that the messages of all episodes at once may take; more than 128 episodes have smaller shares."""
CLOSE_SECONDS = 5.0
"""Time for a process to close its tool at the end."""


def frame(call: bytes, body: bytes) -> bytes:
    """The bytes to send for a message of the call."""
    return HEADER.pack(call, len(body)) + body


def share_of_memory(episodes: int) -> int:
    """The most bytes of memory that each message may take where so many episodes run at once."""
    return min(MOST_MEMORY, ALL_MEMORY // episodes)


def check_size(body: bytes, most: int) -> None:
    """A ValueError for JSON that may take more than `most` bytes of memory when it is read, or nests too deeply."""
    try:
        check_json_size(body, most)
    except ValueError as error:
        raise ValueError(f"{error}, too much for a message to another process; keep less in the state") from None


def decode(body: bytes, most: int) -> Any:
    """The value in a message of another process; a ValueError where it is no JSON in ASCII, or as `check_size`."""
    check_size(body, most)
    return json.loads(body.decode("ascii"))


def encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode()


def pack_rng(rng: random.Random) -> list[Any]:
    """The generator's state as JSON can carry it."""
    version, words, gauss = rng.getstate()
    return [version, b2a_base64(array("I", words).tobytes(), newline=False).decode(), gauss]


def unpack_rng(rng: random.Random, packed: list[Any]) -> None:
    """Set the generator to a state that `pack_rng` packed; a ValueError or TypeError where it is none."""
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


@dataclass(frozen=True)
class Reply:
    """What a process answered to a call."""

    result: ToolResult
    changes: Mapping[str, Any]
    """Of the episode's state; see `state_changes`."""
    rng: list[Any] | None
    """The state of the random generator after the call; None: unchanged."""

    @classmethod
    def read(cls, body: bytes, most: int) -> Reply:
        """The reply in a message that may take `most` bytes of memory; raises anything where it is none."""
        reply = decode(body, most)
        metrics = {str(name): float(value) for name, value in reply["metrics"].items()}
        if not all(map(math.isfinite, metrics.values())):
            raise ValueError("a metric is not finite")
        text, reward = clean_text(str(reply["text"])), float(reply["reward"])
        result = ToolResult(str(reply["name"]), text, bool(reply["error"]), reward=reward, metrics=metrics)
        changes = {"set": dict(reply["set"]), "removed": [str(key) for key in reply["removed"]]}
        return cls(result, changes, reply["rng"])
