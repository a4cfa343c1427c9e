"""Threads for synchronous plugin code: a call that hangs costs a thread, but blocks neither loop, calls nor exit.

Threads are daemons and belong to no executor, because `concurrent.futures` joins its threads at exit. A thread cannot
be killed: a hung one is abandoned, replaced and counted; it ends if its call ever returns.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]

GRACE_SECONDS = 5.0
"""Seconds that a call may still run after its caller was cancelled, before its environment is closed anyway."""


class CallTimeout(Exception):
    """A call did not end in time."""


class Lane:
    """One thread for consecutive calls, for example those of one environment; another takes over when a call hangs.

    A call whose caller was cancelled runs on in its thread; the next call waits for it, at most `GRACE_SECONDS`.
    """

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self._inbox: SimpleQueue[_Job | None] | None = None
        self._cancelled: asyncio.Future[Any] | None = None
        """The call whose caller was cancelled."""

    async def run(self, function: Callable[[], Any], timeout: float | None = None) -> Any:
        """Call the function in this lane's thread and return its result, or raise its exception.

        Raises:
            CallTimeout: it did not end within `timeout` seconds.
        """
        await self._wait_for_cancelled()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._inbox = self._inbox or self._pool._take_thread()
        self._inbox.put((function, loop, future))
        try:
            await asyncio.wait({future}, timeout=timeout)
        except asyncio.CancelledError:
            self._cancelled = future
            future.add_done_callback(lambda ended: ended.exception())
            raise
        if not future.done():
            self._abandon()
            self._pool.hung += 1
            raise CallTimeout
        return future.result()

    def release(self) -> None:
        """Give the thread back to the pool, unless a call still runs in it."""
        if self._cancelled is not None and not self._cancelled.done():
            self._abandon()
        elif self._inbox is not None:
            self._pool._idle.append(self._inbox)
            self._inbox = None

    async def _wait_for_cancelled(self) -> None:
        if self._cancelled is None:
            return
        await asyncio.wait({self._cancelled}, timeout=GRACE_SECONDS)
        if not self._cancelled.done():
            self._abandon()
        self._cancelled = None

    def _abandon(self) -> None:
        """Abandon the thread; it ends after its call."""
        if self._inbox is not None:
            self._inbox.put(None)
            self._inbox = None


class ThreadPool:
    """Runs at most `width` calls at once, each in a thread of its own; used from one event loop at a time."""

    def __init__(self, width: int) -> None:
        self.hung = 0
        """Calls that were given up so far."""
        self._width = width
        self._idle: list[SimpleQueue[_Job | None]] = []
        self._slots: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def lane(self) -> Lane:
        """A thread for one caller, until it is released."""
        return Lane(self)

    async def run(self, function: Callable[[], Any], timeout: float | None = None) -> Any:
        """Call the function in some thread; the time counts from when it starts.

        Raises:
            CallTimeout: it did not end within `timeout` seconds.
        """
        async with self._semaphore():
            lane = self.lane()
            try:
                return await lane.run(function, timeout)
            finally:
                lane.release()

    def close(self) -> None:
        """Let idle threads end."""
        while self._idle:
            self._idle.pop().put(None)

    def _semaphore(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._slots is None or self._loop is not loop:
            self._slots, self._loop = asyncio.Semaphore(self._width), loop
        return self._slots

    def _take_thread(self) -> SimpleQueue[_Job | None]:
        if self._idle:
            return self._idle.pop()
        inbox: SimpleQueue[_Job | None] = SimpleQueue()
        threading.Thread(target=_serve, args=(inbox,), name="agent-r1-call", daemon=True).start()
        return inbox


def _serve(inbox: SimpleQueue[_Job | None]) -> None:
    """Run jobs until None comes."""
    while (job := inbox.get()) is not None:
        function, loop, future = job
        result: Any = None
        error: BaseException | None = None
        try:
            result = function()
        except StopIteration as raised:
            error = as_ordinary(raised)  # a future refuses StopIteration
        except Exception as raised:
            error = raised
        except BaseException as raised:
            error = as_ordinary(raised)
        try:
            loop.call_soon_threadsafe(_settle, future, result, error)
        except RuntimeError:
            continue  # the loop ended while the call hung, so nobody waits for the result
        finally:
            del job, function, future, result, error


def as_ordinary(error: BaseException) -> RuntimeError:
    """A RuntimeError in place of an exception that would end the event loop, or look like our own cancellation."""
    return RuntimeError(f"{type(error).__name__} was raised ({error})").with_traceback(error.__traceback__)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
