"""IsolatedTool: runs a tool in processes of its own, each killed at its call's deadline.

Processes exchange only names, configuration and JSON: the other process imports the tool again, reads its corpora from
files, and gets and returns the episode's `state`, which must be JSON-able. Needs a POSIX system.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from agent_r1_core.contracts.tool import Tool, ToolContext, ToolLimits, ToolResources
from agent_r1_core.contracts.tool_format import ToolResult
from agent_r1_core.errors import message_of
from agent_r1_core.tools.isolated_messages import (
    Reply,
    apply_changes,
    check_size,
    encode,
    pack_rng,
    share_of_memory,
    unpack_rng,
)
from agent_r1_core.tools.isolated_process import OUT_OF_TURN, ToolProcess, describe_target
from agent_r1_core.tools.threads import CallTimeout, ThreadPool

_LOG = logging.getLogger(__name__)

MAX_PROCESSES = 32
"""Processes of one tool; a call that finds none free waits, and its time-out does not count."""
WARM_PROCESSES = 2
"""Processes that are ready from the start; one that dies is replaced before it is needed."""
PATIENCE = 0.1
"""Seconds that a call waits for a free process before another one is started."""
_MOST_DELAY = 60.0
"""Seconds between two starts, after starts that failed."""
_BULKY = 1 << 16
"""Bytes of a message above which JSON is written and read in a thread, so that the event loop stays free."""


class IsolatedTool:
    """Calls a tool in other processes; used from one event loop at a time."""

    def __init__(self, tool: Tool, width: int, limits: ToolLimits) -> None:
        self.killed = 0
        """Processes that were killed at a deadline."""
        self.facts: dict[str, Any] | None = None
        """What the opened tool says about itself."""
        self._target = describe_target(tool)
        self._limits = limits
        self._most = max(1, min(width, MAX_PROCESSES))
        self._memory = share_of_memory(max(1, width))
        self._threads = ThreadPool(self._most)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By episode, as long as one of its calls holds it or waits for it."""
        self._hello: dict[str, Any] = {}
        self._idle: list[ToolProcess] = []
        self._all: set[ToolProcess] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._starting: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        """Why the last process could not be started."""
        self._untried: set[ToolProcess] = set()
        """Processes that have not served a call yet."""
        self._failures = 0
        """Processes that could not be started, or ended between two calls, since a new one last served a call."""
        self._told = False
        self._next_start = 0.0
        """`time.monotonic()` before which no process is started, unless a call waits and there is none."""
        self._reaping: set[asyncio.Task[None]] = set()
        self._bulky = False

    async def start(self, resources: ToolResources, corpora: Mapping[str, str]) -> None:
        """Start the first process, so that a tool that cannot be opened fails at once; further ones follow.

        Raises:
            ToolError: it cannot be opened.
        """
        self._hello = {
            "target": self._target,
            "resources": vars(resources) | {"corpora": dict(corpora)},
            "limits": self._limits.model_dump(),
            "memory": self._memory,
        }
        await self._start_process()
        self.facts = self._idle[0].facts
        self._grow(WARM_PROCESSES)

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, timeout: float) -> ToolResult:
        """Run the tool, after the episode's earlier calls of it, so that each finds the state that they left.

        Raises:
            CallTimeout: it did not answer in time; its process was killed.
            RuntimeError: its process died, or sent something that is no reply to this call; it was killed.
            ValueError: the message is too large.
        """
        async with self._locks.setdefault(context.episode, asyncio.Lock()):
            return await self._exchange(arguments, context, timeout)

    async def _exchange(self, arguments: Mapping[str, Any], context: ToolContext, timeout: float) -> ToolResult:
        message = {
            "arguments": dict(arguments),
            "episode": context.episode,
            "turn": context.turn,
            "task": asdict(context.task),
            "rng": pack_rng(context.rng),
            "state": context.state,
            "timeout": timeout,
        }
        body: bytes = await self._threads.run(lambda: encode(message)) if self._bulky else encode(message)
        check_size(body, self._memory)
        process = await self._take()
        try:
            received = await process.connection.exchange(body, timeout)
            reply = await self._read(received)
            self._bulky = max(len(body), len(received)) > _BULKY
            if reply.rng is not None:
                unpack_rng(context.rng, reply.rng)
            apply_changes(context.state, reply.changes)
        except BaseException as error:
            self._drop(process)
            self.killed += isinstance(error, CallTimeout)
            raise
        if process in self._untried:
            self._untried.discard(process)
            self._failures, self._next_start = 0, 0.0
        self._release(process)
        return reply.result

    async def close(self) -> None:
        """Have every process close the tool and end; kill those that are in a call."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
            self._starting = None
        for process in self._idle:
            self._all.discard(process)
            process.connection.close()
            self._in_background(self._threads.run(process.wait_for_end))
        self._idle.clear()
        for process in list(self._all):
            self._drop(process, replace=False)
        if self._reaping:
            await asyncio.wait(self._reaping)
        self._threads.close()

    async def _read(self, received: bytes) -> Reply:
        read = partial(Reply.read, received, self._memory)
        try:
            return await self._threads.run(read) if len(received) > _BULKY else read()
        except Exception as error:
            raise RuntimeError(OUT_OF_TURN) from error

    async def _take(self) -> ToolProcess:
        """A free process; one more is started for a call that waits for long. Raises what kept the last one from
        starting where none is left.
        """
        while not self._idle:
            if not self._all:
                self._grow()
            freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            try:
                await asyncio.wait({freed}, timeout=PATIENCE)
            except asyncio.CancelledError:
                if freed.done():
                    self._wake()  # the free process is for another call
                raise
            finally:
                self._waiting.remove(freed)
            if not self._all and self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if not freed.done():
                self._grow()
        return self._idle.pop()

    def _release(self, process: ToolProcess) -> None:
        """Make a process free, unless it broke after its reply."""
        if process in self._all:
            self._idle.append(process)
            self._wake()

    def _wake(self) -> None:
        """Let the first call that waits look for a free process."""
        sleeping = next((future for future in self._waiting if not future.done()), None)
        if sleeping is not None:
            sleeping.set_result(None)

    def _grow(self, enough: int | None = None) -> None:
        """Start a process in the background, unless there are enough, one is starting, or the last ones failed."""
        waits = time.monotonic() < self._next_start and (bool(self._all) or enough is not None)
        if self._starting is None and not waits and len(self._all) < min(enough or self._most, self._most):
            self._failure = None
            self._starting = asyncio.create_task(self._start_in_background())

    async def _start_in_background(self) -> None:
        try:
            await self._start_process()
        except Exception as error:
            self._failure = error
            self._fail(message_of(error))
            for future in self._waiting:
                if not future.done():
                    future.set_result(None)
        finally:
            self._starting = None

    async def _start_process(self) -> None:
        process = await ToolProcess.start(self._hello, self._threads, self._drop)
        self._all.add(process)
        self._untried.add(process)
        self._release(process)

    def _fail(self, why: str) -> None:
        """A process could not be started, or died while it was idle: wait longer each time before the next start."""
        if not self._told:
            self._told = True
            _LOG.warning("a process of tool %s is missing (%s); its calls share the others", self._target["name"], why)
        self._next_start = time.monotonic() + min(2**self._failures, _MOST_DELAY)
        self._failures += 1

    def _drop(self, process: ToolProcess, replace: bool = True) -> None:
        """Kill a process that cannot be trusted any more, once, and start another in its place."""
        if process not in self._all:
            return
        self._all.discard(process)
        self._untried.discard(process)
        if process in self._idle:
            self._idle.remove(process)
            self._fail("it ended between two calls")
        process.kill()
        self._in_background(self._threads.run(process.reap))
        if replace:
            self._grow(WARM_PROCESSES)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._reaping.add(task)
        task.add_done_callback(self._reaping.discard)
