"""Runs coroutines from synchronous code: a script, a command, or a notebook, whose event loop is already running.

Unlike `asyncio.run`, it ends within `END_SECONDS` whatever plugins left on the loop: tasks that refuse to be cancelled,
calls in the loop's executor, asynchronous generators that do not close. What is left then never runs on.
`termination_interrupts` lets a coroutine end in order when the process is told to end, and `trim_memory` ends what a
training holds of memory.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

END_SECONDS = 5.0
"""Time for what is left on a loop when its work is done."""
_LOOK = 1.0
"""Seconds in which a thread that waits for a run sees an interruption."""


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; in a separate thread if an event loop is already running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with bounded_runner() as runner:
            return runner.run(_interruptible(coroutine))
    return _in_thread(coroutine)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def trim_memory() -> None:
    """Give the system back what glibc keeps of freed memory, in the heap of each thread, and torch of a GPU's, which an
    engine in another process may need."""
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.empty_cache()
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def bounded_runner() -> Iterator[asyncio.Runner]:
    """An `asyncio.Runner` that ends in time."""
    executor = ThreadPoolExecutor(thread_name_prefix="asyncio")
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(executor)
        try:
            yield runner
        finally:
            # The runner waits for the threads of its loop's executor, so it gets one without any.
            runner.get_loop().set_default_executor(ThreadPoolExecutor(1))
            executor.shutdown(wait=False, cancel_futures=True)
            runner.run(_end_leftovers())


async def _end_leftovers() -> None:
    """Cancel the tasks that are left and close the generators; abandon what does not end."""
    loop = asyncio.get_running_loop()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, stubborn = await asyncio.wait(tasks, timeout=END_SECONDS)
        for task in stubborn:
            _abandoned.add(task)
            asyncio._unregister_task(task)  # otherwise the runner would wait for it
    with suppress(TimeoutError):
        await asyncio.wait_for(loop.shutdown_asyncgens(), END_SECONDS)


_abandoned: set[asyncio.Task[Any]] = set()
"""Tasks that never end; kept, since Python complains about one that it deletes."""


async def _interruptible(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await, and do not report a second interruption as the failure of the task that it hits."""

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(report)
    _running.task, _running.terminated = asyncio.current_task(), False
    try:
        return await coroutine
    except asyncio.CancelledError:
        if _running.terminated:
            raise KeyboardInterrupt from None
        raise
    finally:
        _running.task = None


def _in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread; an interruption of this thread cancels it and waits for its end."""
    ended = Future[T]()
    cancel: Callable[[], object] = lambda: None

    async def watched() -> T:
        nonlocal cancel
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        cancel = lambda: loop.call_soon_threadsafe(task.cancel) if task is not None else None
        return await coroutine

    def target() -> None:
        try:
            with bounded_runner() as runner:
                value = runner.run(watched())
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(value)

    threading.Thread(target=target, name="agent-r1-run").start()
    interrupted = False
    while not ended.done():
        try:
            while not ended.done():  # another thread may get the signal, which does not wake this one
                wait([ended], _LOOK)
        except KeyboardInterrupt:
            interrupted = True
            with suppress(RuntimeError):  # its loop is closed: the run is about to end by itself
                cancel()
    if interrupted:
        raise KeyboardInterrupt
    return ended.result()


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """Let SIGTERM do what SIGINT does, in the main thread, unless the program around handles SIGTERM itself."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if not ours:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@dataclass
class _Running:
    """The task that a termination cancels."""

    task: asyncio.Task[Any] | None = None
    terminated: bool = False


_running = _Running()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Cancel the task that runs, as asyncio does for SIGINT (which a background job of a script may have to ignore)."""
    if _running.task is None or _running.terminated:
        raise KeyboardInterrupt
    _running.terminated = True
    _running.task.get_loop().call_soon_threadsafe(_running.task.cancel)
