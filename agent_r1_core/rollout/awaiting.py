"""Awaits what plugin code gives: it has its time and no more, and whatever it raises is an ordinary exception (LAW 9).

It runs on the event loop: what refuses its cancellation is left behind, what blocks the loop blocks everybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from agent_r1_core.rollout.threads import CallTimeout

_left: set[asyncio.Future[Any]] = set()
"""Tasks that were given up and have not ended: the loop alone would not keep them alive."""


async def await_within(value: Awaitable[Any], timeout: float | None = None) -> Any:
    """Await `value` for at most `timeout` seconds, whether it obeys its cancellation or not.

    Raises:
        CallTimeout: it did not end in its time.
        RuntimeError: it cancelled itself, or raised what would stop the event loop.
    """
    task = asyncio.ensure_future(_contained(value))
    try:
        await asyncio.wait({task}, timeout=None if timeout is None else max(timeout, 0.0))
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    if task.done():
        return task.result()
    _left.add(task)
    task.add_done_callback(_forget)
    task.cancel()
    raise CallTimeout


async def _contained(value: Awaitable[Any]) -> Any:
    """Await, with what is no ordinary exception as one."""
    try:
        return await value
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__} was raised ({error})") from None


def _forget(task: asyncio.Future[Any]) -> None:
    _left.discard(task)
    if not task.cancelled():
        task.exception()
