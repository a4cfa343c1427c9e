"""Threads for synchronous plugin code: a call that hangs costs a thread, but blocks neither loop, calls nor exit.

Threads are daemons and belong to no executor, because `concurrent.futures` joins its threads at exit. A thread cannot
be killed: a hung one is abandoned, replaced and counted; it ends if its call ever returns. Only so many may be left
behind: a loop among them takes the interpreter from everybody else.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from agent_r1_core.errors import message_of
from agent_r1_core.tools.left_behind import LeftBehind

_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]

GRACE_SECONDS = 5.0
"""Seconds that a call may still run after its caller was cancelled, before its environment is closed anyway."""


class CallTimeout(Exception):
    """A call did not end in time."""


class CallThread(threading.Thread):
    """Runs jobs from its inbox until None comes."""

    def __init__(self) -> None:
        super().__init__(name="agent-r1-call", daemon=True)
        self.inbox: SimpleQueue[_Job | None] = SimpleQueue()

    def run(self) -> None:
        """Run the jobs."""
        while (job := self.inbox.get()) is not None:
            _run(*job)
            del job


class Lane:
    """One thread for consecutive calls, for example those of one environment; another takes over when a call hangs.

    A call whose caller was cancelled runs on in its thread; the next call waits for it, at most `GRACE_SECONDS`.
    """

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self._thread: CallThread | None = None
        self._cancelled: asyncio.Future[Any] | None = None
        """The call whose caller was cancelled."""
        self._name = ""

    async def run(self, function: Callable[[], Any], timeout: float | None = None, name: str = "") -> Any:
        """Call the function in this lane's thread and return its result, or raise its exception.

        Args:
            function: takes no arguments.
            timeout: seconds; None: no limit.
            name: what the call is of, for the sentence about calls that were left behind.

        Raises:
            CallTimeout: it did not end within `timeout` seconds.
        """
        await self._wait_for_cancelled()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._thread = self._thread or self._pool._take_thread()
        self._name = name
        self._thread.inbox.put((function, loop, future))
        try:
            await asyncio.wait({future}, timeout=timeout)
        except asyncio.CancelledError:
            self._cancelled = future
            future.add_done_callback(lambda ended: ended.exception())
            raise
        if not future.done():
            self._abandon()
            future.add_done_callback(lambda ended: ended.exception())
            self._pool.hung += 1
            raise CallTimeout
        return future.result()

    def release(self) -> None:
        """Give the thread back to the pool, unless a call still runs in it."""
        if self._cancelled is not None and not self._cancelled.done():
            self._abandon()
        elif self._thread is not None:
            self._pool._idle.append(self._thread)
            self._thread = None

    async def _wait_for_cancelled(self) -> None:
        if self._cancelled is None:
            return
        await asyncio.wait({self._cancelled}, timeout=GRACE_SECONDS)
        if not self._cancelled.done():
            self._abandon()
        self._cancelled = None

    def _abandon(self) -> None:
        """Abandon the thread; it ends after its call."""
        if self._thread is not None:
            self._thread.inbox.put(None)
            self._pool._left.add(self._thread, self._name)
            self._thread = None


class ThreadPool:
    """Runs at most `width` calls at once, each in a thread of its own; used from one event loop at a time."""

    def __init__(self, width: int) -> None:
        self.hung = 0
        """Calls that were given up so far."""
        self._width = width
        self._idle: list[CallThread] = []
        self._left = LeftBehind()
        self._slots: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def lane(self) -> Lane:
        """A thread for one caller, until it is released."""
        return Lane(self)

    async def run(self, function: Callable[[], Any], timeout: float | None = None, name: str = "") -> Any:
        """Call the function in some thread; the time counts from when it starts.

        Raises:
            CallTimeout: it did not end within `timeout` seconds.
        """
        async with self._semaphore():
            lane = self.lane()
            try:
                return await lane.run(function, timeout, name)
            finally:
                lane.release()

    async def wait_for_room(self) -> None:
        """Wait while too many calls that were given up still run; for calls that may be left behind, too.

        Raises:
            TooManyLeft: none of them ends.
        """
        await self._left.wait_for_room()

    def close(self) -> None:
        """Let idle threads end."""
        while self._idle:
            self._idle.pop().inbox.put(None)

    def _semaphore(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._slots is None or self._loop is not loop:
            self._slots, self._loop = asyncio.Semaphore(self._width), loop
        return self._slots

    def _take_thread(self) -> CallThread:
        if self._idle:
            return self._idle.pop()
        thread = CallThread()
        thread.start()
        return thread


def _run(function: Callable[[], Any], loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
    """Run a job and settle its future."""
    result: Any = None
    error: BaseException | None = None
    process = os.getpid()
    try:
        result = function()
    except StopIteration as raised:
        error = as_ordinary(raised)  # a future refuses StopIteration
    except Exception as raised:
        error = raised
    except BaseException as raised:
        error = as_ordinary(raised)
    end_copy(process)
    try:
        loop.call_soon_threadsafe(_settle, future, result, error)
    except RuntimeError:
        pass  # the loop ended while the call hung, so nobody waits for the result
    finally:
        del function, future, result, error


def end_copy(process: int) -> None:
    """End this process if it is no longer `process` but a copy that an author's code forked and left running."""
    if os.getpid() != process:
        os._exit(0)


def as_ordinary(error: BaseException) -> RuntimeError:
    """A RuntimeError in place of an exception that would end the event loop, or look like our own cancellation."""
    text = f"{type(error).__name__} was raised ({message_of(error)})"
    return RuntimeError(text).with_traceback(error.__traceback__)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
