"""Runs a coroutine from synchronous code: a script, a command, or a notebook, whose event loop is already running."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; in a separate thread if an event loop is already running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_interruptible(coroutine))
    return _in_thread(coroutine)


async def _interruptible(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await, and do not report a second interruption as the failure of the task that it hits."""

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(report)
    return await coroutine


def _in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread; an interruption of this thread cancels it and waits for its end."""
    outcome: dict[str, Any] = {}
    ended = threading.Event()  # after an interruption `Thread.join` may report a running thread as ended

    async def watched() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        outcome["cancel"] = lambda: loop.call_soon_threadsafe(task.cancel) if task is not None else None
        return await coroutine

    def target() -> None:
        try:
            outcome["value"] = asyncio.run(watched())
        except BaseException as error:
            outcome["error"] = error
        finally:
            ended.set()

    threading.Thread(target=target, name="agent-r1-run").start()
    interrupted = False
    while not ended.is_set():
        try:
            ended.wait()
        except KeyboardInterrupt:
            interrupted = True
            outcome.get("cancel", lambda: None)()
    if interrupted:
        raise KeyboardInterrupt
    if "error" in outcome:
        raise outcome["error"]
    value: T = outcome["value"]
    return value
