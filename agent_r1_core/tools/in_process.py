"""InProcessTools: runs tools in threads of this process, and the async part of async ones on the event loop.

Arguments are validated, and results become text, in threads, since both may run the author's code.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable
from functools import partial
from typing import Any, Protocol

from agent_r1_core.contracts.tool import Tool, ToolContext
from agent_r1_core.contracts.tool_format import ToolCall
from agent_r1_core.tools.answer import Answer, call_tool
from agent_r1_core.tools.calling import await_within
from agent_r1_core.tools.process_state import SharedProcess
from agent_r1_core.tools.threads import CallTimeout, ThreadPool


class CallLog(Protocol):
    """Records which calls run in this process, for whoever finds that it died."""

    def begin(self, tool: str, episode: str, turn: int) -> int:
        """A call begins; returns its place in the record."""

    def end(self, place: int) -> None:
        """The call at that place has ended."""


class NoLog:
    """Records nothing."""

    def begin(self, tool: str, episode: str, turn: int) -> int:
        """Record nothing."""
        return 0

    def end(self, place: int) -> None:
        """Record nothing."""


class InProcessTools:
    """Calls tools in this process."""

    def __init__(self, threads: ThreadPool) -> None:
        self.log: CallLog = NoLog()
        self._threads = threads
        self._process = SharedProcess()

    async def call(self, tool: Tool, call: ToolCall, context: ToolContext, timeout: float) -> Answer:
        """Run a call of the tool.

        Raises:
            CallTimeout: it did not end in time.
            TooManyLeft: too many calls that were given up still run.
        """
        await self._threads.wait_for_room()
        self._process.begin(tool.name)
        try:
            return await self._call(tool, call, context, timeout)
        finally:
            self._process.end()

    async def _call(self, tool: Tool, call: ToolCall, context: ToolContext, timeout: float) -> Answer:
        deadline = math.inf

        def run() -> Answer | Awaitable[Any]:
            nonlocal deadline
            context.deadline = deadline = time.monotonic() + timeout
            place = self.log.begin(tool.name, context.episode, context.turn)
            try:
                return call_tool(tool, call.arguments, context)
            finally:
                self._process.returned(tool.name)
                self.log.end(place)

        in_thread = partial(self._threads.run, timeout=timeout, name=f"tool {tool.name}")
        value: Answer | Awaitable[Any] = await in_thread(run)
        if isinstance(value, Answer):
            return value
        place = self.log.begin(tool.name, context.episode, context.turn)
        self._process.begin_on_loop()
        try:
            finish = partial(Answer.of, tool, await await_within(value, deadline - time.monotonic()), context)
        except CallTimeout:
            raise
        except Exception as error:
            finish = partial(Answer.of_error, tool, error, context)
        finally:
            self._process.returned(tool.name)
            self._process.end_on_loop(tool.name)
            self.log.end(place)
        answer: Answer = await in_thread(finish)
        return answer
