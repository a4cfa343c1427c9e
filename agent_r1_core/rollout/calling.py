"""Caller: the one way to call a plugin author's function, sync or async, within a time-out (LAW 9).

An async function runs on the event loop. One that blocks the loop blocks every episode; one that refuses to be
cancelled is abandoned.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agent_r1_core.rollout.threads import GRACE_SECONDS, CallTimeout, Lane, ThreadPool, as_ordinary, end_copy

_abandoned: set[asyncio.Future[Any]] = set()
"""Tasks that were given up and have not ended; the loop alone would not keep them alive."""


class Caller:
    """Calls async functions on the event loop and others in threads; whatever an author raises becomes an Exception."""

    def __init__(self, threads: ThreadPool) -> None:
        self.threads = threads

    async def call(
        self, function: Callable[[], Any], timeout: float | None = None, lane: Lane | None = None, name: str = ""
    ) -> Any:
        """Call the function and return its result, or raise its exception.

        Args:
            function: takes no arguments; an awaitable that it returns is awaited in the time that is left.
            timeout: seconds, from when the function starts; None: no limit.
            lane: the thread for a sync function; None: any thread of the pool.
            name: what the call is of, for the sentence about calls that were left behind.

        Raises:
            CallTimeout: the function did not end in time.
            RuntimeError: the function cancelled itself, or raised what would end the event loop.
        """
        if inspect.iscoroutinefunction(function):
            return await await_within(function(), timeout)
        deadline = math.inf

        def run() -> Any:
            nonlocal deadline
            deadline = time.monotonic() + (math.inf if timeout is None else timeout)
            return function()

        value = await (self.threads if lane is None else lane).run(run, timeout, name)
        if not inspect.isawaitable(value):
            return value
        return await await_within(value, None if timeout is None else deadline - time.monotonic())


async def await_within(value: Awaitable[Any], timeout: float | None) -> Any:
    """Await an author's value for at most `timeout` seconds, even one that refuses to be cancelled.

    Raises:
        CallTimeout: it did not end in time.
        RuntimeError: it cancelled itself, or raised what would end the event loop.
    """
    task = asyncio.ensure_future(_await_ordinary(value))
    try:
        await asyncio.wait({task}, timeout=None if timeout is None else max(timeout, 0.0))
    except asyncio.CancelledError:
        task.cancel()
        _abandon(task)
        await asyncio.wait({task}, timeout=GRACE_SECONDS)
        raise
    if not task.done():
        task.cancel()
        _abandon(task)
        raise CallTimeout
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    return task.result()


async def _await_ordinary(value: Awaitable[Any]) -> Any:
    """Await, converting fatal exceptions to RuntimeError."""
    process = os.getpid()
    try:
        return await value
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise as_ordinary(error) from None
    finally:
        end_copy(process)


def _abandon(task: asyncio.Future[Any]) -> None:
    """Keep a task alive until it ends, and ignore its result."""
    _abandoned.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Future[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()
