"""The one way to call a plugin author's function, sync or async, within a time-out (LAW 9).

An async function runs on the event loop. One that blocks the loop blocks every episode; one that refuses to be
cancelled is abandoned. What it returns or raises is looked at in a thread, unless it is plain data already.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

from agent_r1_core.errors import plain_error
from agent_r1_core.tools.plain import is_plain
from agent_r1_core.tools.threads import GRACE_SECONDS, CallTimeout, Lane, ThreadPool, as_ordinary, end_copy

_authors: ContextVar[bool] = ContextVar("agent_r1_authors", default=False)
"""Whether an author's code runs on the event loop; the tasks that it begins inherit this."""
_LOOK_SECONDS = 1.0
"""The least time for looking at what an async function gave in time: the thread may have to start first."""
_abandoned: set[asyncio.Future[Any]] = set()
"""Tasks that were given up and have not ended; the loop alone would not keep them alive."""


def as_it_is(value: Any) -> Any:
    """The value."""
    return value


async def call_within(
    threads: ThreadPool,
    function: Callable[[], Any],
    timeout: float | None = None,
    lane: Lane | None = None,
    name: str = "",
    convert: Callable[[Any], Any] = as_it_is,
) -> Any:
    """Call the function, on the event loop if it is async and in a thread else, and return what `convert` makes of its
    result, or raise its exception; whatever an author raises becomes an Exception.

    Args:
        function: takes no arguments; an awaitable that it returns is awaited in the time that is left.
        timeout: seconds, from when the function starts; None: no limit.
        lane: the thread for a sync function; None: any thread of the pool.
        name: what the call is of, for the sentence about calls that were left behind.
        convert: makes plain data of the result, which may run the author's code, in the same time; what an async
            function gave just before its time was over is looked at for a second.

    Raises:
        CallTimeout: the function did not end in time.
        RuntimeError: the function cancelled itself, or raised what would end the event loop.
    """
    started = time.monotonic()  # as far as nothing runs in a thread

    def run() -> tuple[Any, bool]:
        nonlocal started
        started = time.monotonic()
        value = function()
        later = inspect.isawaitable(value)
        return (value if later else convert(value)), later

    def left(least: float = 0.0) -> float | None:
        return None if timeout is None else max(started + timeout - time.monotonic(), least)

    in_thread = partial(_in_thread, threads if lane is None else lane, name=name)
    if inspect.iscoroutinefunction(function):
        value = function()
    else:
        value, later = await in_thread(run, timeout)
        if not later:
            return value
    try:
        value = await await_within(value, left())
    except CallTimeout:
        raise
    except Exception as error:
        raise await in_thread(partial(plain_error, error), left(_LOOK_SECONDS)) from None
    return convert(value) if is_plain(value) else await in_thread(partial(convert, value), left(_LOOK_SECONDS))


async def _in_thread(threads: ThreadPool | Lane, function: Callable[[], Any], timeout: float | None, name: str) -> Any:
    """Call the function in a thread; what it raises runs no author's code when it is printed."""

    def run() -> Any:
        try:
            return function()
        except Exception as error:
            plain = plain_error(error)
            if plain is error:
                raise
            raise plain from None

    return await threads.run(run, timeout, name)


async def await_within(value: Awaitable[Any], timeout: float | None) -> Any:
    """Await an author's value for at most `timeout` seconds, even one that refuses to be cancelled.

    Raises:
        CallTimeout: it did not end in time.
        RuntimeError: it cancelled itself, or raised what would end the event loop.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is None:
        loop.set_task_factory(_make_task)
    task = loop.create_task(_await_ordinary(value))
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
    _authors.set(True)
    try:
        return await value
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise as_ordinary(error) from None
    finally:
        end_copy(process)


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """A task; a fatal exception in one that an author's code began would end the loop, so it becomes a RuntimeError."""
    return asyncio.Task(_await_ordinary(coroutine) if _authors.get() else coroutine, loop=loop, **options)


def _abandon(task: asyncio.Future[Any]) -> None:
    """Keep a task alive until it ends, and ignore its result."""
    _abandoned.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Future[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()
