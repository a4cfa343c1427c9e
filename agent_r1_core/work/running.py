"""Runs coroutines from synchronous code: a script, a command, or a notebook, whose event loop is already running.

Unlike `asyncio.run`, it ends within `END_SECONDS` whatever plugins left on the loop: tasks that refuse to be cancelled,
calls in the loop's executor, asynchronous generators that do not close. What is left then never runs on.
`termination_interrupts` lets a coroutine end in order when the process is told to end, and `trim_memory` ends what a
training holds of memory.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

END_SECONDS = 5.0
"""Time for what is left on a loop when its work is done."""
_ECHO = 1.0
"""Seconds in which a second signal is the first one's echo: `timeout` and batch systems tell a process and its group,
and a shell or `make` in between passes it on."""
_LOOK = 1.0
"""Seconds in which a thread that waits for a run sees an interruption."""


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; in a separate thread if an event loop is already running, as in a notebook.

    In the main thread SIGTERM and SIGHUP interrupt it as Ctrl-C does, so that what it has started ends with it.
    """
    with termination_interrupts():
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
    outcome: dict[str, Any] = {}
    ended = threading.Event()  # after an interruption `Thread.join` may report a running thread as ended

    async def watched() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        outcome["cancel"] = lambda: loop.call_soon_threadsafe(task.cancel) if task is not None else None
        return await coroutine

    def target() -> None:
        try:
            with bounded_runner() as runner:
                outcome["value"] = runner.run(watched())
        except BaseException as error:
            outcome["error"] = error
        finally:
            ended.set()

    thread = threading.Thread(target=target, name="agent-r1-run")
    with _interruptions_noted() as noted:  # one within `start` would leave a run behind that nobody waits for
        thread.start()
    interruptions, passed_on = len(noted), 0
    while not ended.is_set():
        try:
            if passed_on < interruptions and "cancel" in outcome:
                passed_on = interruptions
                with suppress(RuntimeError):  # its loop is closed: the run is about to end by itself
                    outcome["cancel"]()
            ended.wait(_LOOK)  # another thread may get the signal, which does not wake this one
        except KeyboardInterrupt:
            interruptions += 1
    if interruptions:
        raise KeyboardInterrupt
    if "error" in outcome:
        raise outcome["error"]
    value: T = outcome["value"]
    return value


@contextmanager
def _interruptions_noted() -> Iterator[list[int]]:
    """Note SIGINT in a list for a while, in place of what it does to the main thread."""
    noted: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield noted
        return
    signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a terminal that is gone, do what SIGINT does, in the main thread, unless the program
    around handles or ignores them itself, as under `nohup`; a second one shortly after it does nothing."""
    main = threading.current_thread() is threading.main_thread()
    ours = [one for one in (signal.SIGTERM, signal.SIGHUP) if main and signal.getsignal(one) == signal.SIG_DFL]
    if ours:
        _running.told = -math.inf
    for one in ours:
        signal.signal(one, _interrupt)
    try:
        yield
    finally:
        for one in ours:
            signal.signal(one, signal.SIG_DFL)


@dataclass
class _Running:
    """The task that a termination cancels."""

    task: asyncio.Task[Any] | None = None
    terminated: bool = False
    told: float = -math.inf
    """When a signal came that is no echo."""


_running = _Running()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Cancel the task that runs, as asyncio does for SIGINT (which a background job of a script may have to ignore)."""
    if (now := time.monotonic()) - _running.told < _ECHO:
        return
    _running.told = now
    if _running.task is None or _running.terminated:
        raise KeyboardInterrupt
    _running.terminated = True
    _running.task.get_loop().call_soon_threadsafe(_running.task.cancel)
