"""Caller: the one way to call a plugin author's function, sync or async, within its time (LAW 9).

An async function runs on the event loop: one that blocks the loop blocks everybody, and one that refuses its
cancellation is left behind.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agent_r1_core.rollout.threads import GRACE_SECONDS, CallTimeout, Lane, ThreadPool, as_ordinary

_left: set[asyncio.Future[Any]] = set()
"""Tasks that were given up and have not ended: the loop alone would not keep them alive."""


class Caller:
    """Calls async functions on the event loop and others in threads; what an author raises is an ordinary exception."""

    def __init__(self, threads: ThreadPool) -> None:
        self.threads = threads

    async def call(
        self,
        function: Callable[[], Any],
        timeout: float | None = None,
        lane: Lane | None = None,
        on_loop: bool | None = None,
    ) -> Any:
        """Call the function and return its result, or raise its exception.

        Args:
            function: without arguments; an awaitable that it returns is awaited in what is left of its time.
            timeout: seconds, from when the function starts; None: no bound.
            lane: the thread for a sync function; None: any thread of the pool.
            on_loop: call it on the event loop; None: if it is `async def`.

        Raises:
            CallTimeout: it did not end in its time.
            RuntimeError: it cancelled itself, or raised what would end the event loop.
        """
        if inspect.iscoroutinefunction(function) if on_loop is None else on_loop:
            return await _await_within(function(), timeout)
        deadline = math.inf

        def run() -> Any:
            nonlocal deadline
            deadline = time.monotonic() + (math.inf if timeout is None else timeout)
            return function()

        value = await (self.threads if lane is None else lane).run(run, timeout)
        if not inspect.isawaitable(value):
            return value
        return await _await_within(value, None if timeout is None else deadline - time.monotonic())


async def _await_within(value: Awaitable[Any], timeout: float | None) -> Any:
    """Await for at most `timeout` seconds, whether the value obeys its cancellation or not."""
    task = asyncio.ensure_future(_contained(value))
    try:
        await asyncio.wait({task}, timeout=None if timeout is None else max(timeout, 0.0))
    except asyncio.CancelledError:
        task.cancel()
        _leave(task)
        await asyncio.wait({task}, timeout=GRACE_SECONDS)
        raise
    if not task.done():
        task.cancel()
        _leave(task)
        raise CallTimeout
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    return task.result()


async def _contained(value: Awaitable[Any]) -> Any:
    """Await, with what is no ordinary exception as one."""
    try:
        return await value
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise as_ordinary(error) from None


def _leave(task: asyncio.Future[Any]) -> None:
    """Keep a task that was given up alive until it ends; nobody asks for its result."""
    _left.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Future[Any]) -> None:
    _left.discard(task)
    if not task.cancelled():
        task.exception()
