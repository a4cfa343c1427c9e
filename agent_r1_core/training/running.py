"""Runs a coroutine to its end from ordinary code: a script, a command, or a notebook whose event loop is busy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where a loop runs already (a notebook): in a thread of its own then."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_interruptible(work))
    return _in_thread(work)


async def _interruptible(work: Coroutine[Any, Any, T]) -> T:
    """Await; a second interruption, which ends some task wherever it is, is not reported as that task's failure."""

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(report)
    return await work


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread; an interruption of this one is passed on, and waits for the work to end."""
    outcome: dict[str, Any] = {}
    ended = threading.Event()  # an interrupted `Thread.join` takes a thread that goes on for one that ended

    async def watched() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        outcome["cancel"] = lambda: loop.call_soon_threadsafe(task.cancel) if task is not None else None
        return await work

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
