"""Finds where an answer stops among ids that were sampled past it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_r1_core.contracts.engine import Request


def stop_length(ids: Sequence[int], request: Request, decode: Callable[[list[int]], str] | None) -> int | None:
    """How many of the sampled ids belong to the answer: all up to and including the first one that is a stop id or
    completes a stop string. None: there is no stop.

    Decodes every prefix anew, so use it for short answers. `decode` may be None if there are no stop strings.
    """
    for length in range(1, len(ids) + 1):
        if ids[length - 1] in request.stop_ids:
            return length
        if request.stop_strings and decode is not None:
            text = decode(list(ids[:length]))
            if any(stop in text for stop in request.stop_strings):
                return length
    return None
