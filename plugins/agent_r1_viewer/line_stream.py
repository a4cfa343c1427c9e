"""LineStream: an answer in parts that holds little where its client does not read: few at a time, each for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

if TYPE_CHECKING:
    from starlette.types import Message, Send

UNREAD = 20.0
"""Seconds that a client may leave a part unread; then its answer ends in the middle."""


class LineStream(StreamingResponse):
    """Lines of JSON as they are found; others wait for their turn before they hold anything."""

    def __init__(self, parts: Generator[str], turns: asyncio.Semaphore, headers: Mapping[str, str]) -> None:
        now = {**headers, "content-encoding": "identity"}  # compressed, lines would wait for others
        super().__init__(parts, media_type="application/x-ndjson", headers=now)
        self._parts = parts
        self._turns = turns

    async def stream_response(self, send: Send) -> None:
        """Send the parts, unless nobody reads them."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(UNREAD):
                await send(message)

        async with self._turns:
            with contextlib.closing(self._parts), contextlib.suppress(TimeoutError):
                await super().stream_response(send_in_time)
