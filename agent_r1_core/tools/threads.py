"""Threads for synchronous plugin code: a call that hangs costs a thread, but blocks neither loop, calls nor exit.

Threads are daemons and belong to no executor, because `concurrent.futures` joins its threads at exit. A thread cannot
be killed: a hung one is abandoned, replaced and counted; it ends if its call ever returns. Only so many may be left
behind: one that waits costs memory, and one that computes takes the interpreter from everybody else. Their processor
time is known only on Linux.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from agent_r1_core.errors import EpisodeError, message_of

_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]

GRACE_SECONDS = 5.0
"""Seconds that a call may still run after its caller was cancelled, before its environment is closed anyway."""
MOST_LEFT = 32
"""Calls that may run on at once after they were given up; a further call waits until one of them ends."""
MOST_LOOPS = 4
"""Calls among them that may compute."""
LOOP_SECONDS = 1.0
"""A call that has used so much processor time since it was given up is a loop."""
LEFT_SECONDS = 60.0
"""How long a call waits until fewer are left, before the rollout ends."""
_POLL_SECONDS = 0.05


class CallTimeout(Exception):
    """A call did not end in time."""


class ThreadTimeout(CallTimeout):
    """It was in a thread, which runs on."""


class TooManyLeft(EpisodeError):
    """Too many calls run on after they were given up; no retry would help."""


class LeftBehind:
    """The threads of one pool that were left behind."""

    def __init__(self) -> None:
        self._threads: dict[threading.Thread, tuple[str, float]] = {}
        """The name of each thread's call, and the thread's processor time when it was given up."""
        self._looked = 0.0
        self._sentence: str | None = None
        """What was seen then: whether too many are left."""

    def add(self, thread: threading.Thread, name: str) -> None:
        """Leave a thread behind in a call of that name."""
        self._threads[thread] = (name, _computed(thread))

    async def wait_for_room(self) -> None:
        """Wait while as many calls as may be are left.

        Raises:
            TooManyLeft: none of them ends.
        """
        if len(self._threads) < min(MOST_LEFT, MOST_LOOPS):
            return
        deadline = time.monotonic() + LEFT_SECONDS
        while (sentence := self._look()) is not None:
            if time.monotonic() > deadline:
                raise TooManyLeft(sentence)
            await asyncio.sleep(_POLL_SECONDS)

    def _look(self) -> str | None:
        """What `_too_many` says; all calls that wait share one look."""
        if time.monotonic() - self._looked >= _POLL_SECONDS:
            self._sentence, self._looked = self._too_many(), time.monotonic()
        return self._sentence

    def _too_many(self) -> str | None:
        """A sentence if too many are left."""
        self._threads = {thread: left for thread, left in self._threads.items() if thread.is_alive()}
        waiting = Counter(name for name, _ in self._threads.values())
        loops = [thread for thread, (_, before) in self._threads.items() if _computed(thread) - before > LOOP_SECONDS]
        looping = Counter(self._threads[thread][0] for thread in loops)
        for what, left, most in (("compute", looping, MOST_LOOPS), ("run", waiting, MOST_LEFT)):
            if left.total() >= most:
                return (
                    f"{left.total()} calls still {what} in threads although they were given up, most of them of "
                    f"{left.most_common(1)[0][0]}; make it end by itself, or give a tool isolation: process, whose "
                    "calls are killed at their deadline"
                )
        return None


class CallThread(threading.Thread):
    """Runs jobs from its inbox until None comes."""

    def __init__(self) -> None:
        super().__init__(name="agent-r1-call", daemon=True)
        self.inbox: SimpleQueue[_Job | None] = SimpleQueue()

    def run(self) -> None:
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

        A sentence about calls that were left behind names what the call is of.

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
            raise ThreadTimeout
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


def _computed(thread: threading.Thread) -> float:
    """Processor time of a thread; 0 where that is not known."""
    try:
        fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
