"""ToolRunner: runs tool calls of many episodes at once; whatever a tool does becomes a result (LAW 9).

Async tools run on the event loop, so one that blocks it blocks every episode. Such a tool needs `isolation: process`,
and so does one that never releases the interpreter's lock.
"""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Awaitable, Mapping
from functools import partial
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from agent_r1_core.chat import clip_text
from agent_r1_core.contracts.tool import CALL_TIMEOUT, Tool, ToolContext, ToolResources
from agent_r1_core.contracts.tool_format import ToolCall, ToolResult
from agent_r1_core.errors import AgentR1Error, ToolError
from agent_r1_core.rollout.calling import Caller
from agent_r1_core.rollout.isolated import IsolatedTool, write_corpora
from agent_r1_core.rollout.threads import CallTimeout, ThreadPool
from agent_r1_core.rollout.tool_counts import ToolCount, ToolCounts
from agent_r1_core.rollout.wording import argument_error, describe_error, error_text, to_text

CALLS_PER_EPISODE = 4
"""Threads per episode, for the calls of one action."""

_LOG = logging.getLogger(__name__)

Isolation = Literal["thread", "process"]


class ToolRunner:
    """Runs tool calls."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        timeouts: Mapping[str, float] | None = None,
        isolation: Mapping[str, Isolation] | None = None,
        max_concurrency: int = 128,
    ) -> None:
        """Prepare the tools; nothing is opened yet.

        Args:
            tools: by the name that the model uses.
            timeouts: seconds per call, by tool; `CALL_TIMEOUT` where missing.
            isolation: `thread` (default) or `process`, by tool.
            max_concurrency: episodes at once.

        Raises:
            ConfigError: a tool of `isolation: process` cannot be imported by another process.
        """
        self.tools = dict(tools)
        self._timeouts = {name: float((timeouts or {}).get(name, CALL_TIMEOUT)) for name in self.tools}
        self._isolated = {
            name: IsolatedTool(tool, max_concurrency)
            for name, tool in self.tools.items()
            if (isolation or {}).get(name, "thread") == "process"
        }
        self._threads = ThreadPool(max_concurrency * CALLS_PER_EPISODE)
        self._caller = Caller(self._threads)
        self._opened: list[Tool] = []
        self._folder: TemporaryDirectory[str] | None = None
        self._counts: dict[str, ToolCount] = {}

    @property
    def counts(self) -> ToolCounts:
        """A copy of the counts so far."""
        killed = sum(tool.killed for tool in self._isolated.values())
        return ToolCounts(
            {name: count + ToolCount() for name, count in self._counts.items()}, self._threads.hung + killed
        )

    async def start(self, resources: ToolResources) -> None:
        """Open every tool.

        Raises:
            AgentR1Error: a tool cannot be opened; the others are closed again.
        """
        try:
            for name, tool in self.tools.items():
                if name not in self._isolated:
                    await self._open(name, tool, resources)
            if self._isolated:
                await self._start_isolated(resources)
        except BaseException:
            await self.close()
            raise

    def describe(self) -> dict[str, dict[str, Any]]:
        """What the opened tools of this process say about themselves, by name."""
        descriptions: dict[str, dict[str, Any]] = {}
        for tool in self._opened:
            try:
                facts = tool.describe()
            except Exception as error:
                facts = {"error": f"describe() failed with {type(error).__name__}"}
            descriptions |= {tool.name: facts} if facts is not None else {}
        return descriptions

    async def call(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a call; whatever goes wrong becomes a result that the model can read."""
        begun = time.perf_counter()
        count = self._counts.setdefault(call.name if call.name in self.tools else "", ToolCount())
        text, error = await self._answer(call, context, count)
        seconds = time.perf_counter() - begun
        count.add(error=error, seconds=seconds, numbers=_numbers(call.name, context.metrics))
        return ToolResult(clip_text(call.name, 40), text, error, seconds)

    async def close(self) -> None:
        """Close the tools and end threads and processes; hung threads are abandoned and delay nothing."""
        for isolated in self._isolated.values():
            isolated.close()
        while self._opened:
            tool = self._opened.pop()
            try:
                await self._caller.call(tool.close, CALL_TIMEOUT)
            except Exception as error:
                _LOG.warning("tool %s could not be closed: %s", tool.name, describe_error(error))
        if self._folder is not None:
            self._folder.cleanup()
        self._threads.close()

    async def _open(self, name: str, tool: Tool, resources: ToolResources) -> None:
        try:
            await self._caller.call(partial(tool.open, resources))
        except AgentR1Error:
            raise
        except Exception as error:
            raise ToolError(f"tool {name} cannot be opened: {describe_error(error)}; check its open()") from error
        self._opened.append(tool)

    async def _start_isolated(self, resources: ToolResources) -> None:
        """Open the isolated tools; their corpora are files in a folder that exists as long as the runner."""
        self._folder = folder = TemporaryDirectory(prefix="agent-r1-corpora-")
        others = {name for isolated in self._isolated for name in self.tools[isolated].other_corpora()}
        wanted = {name: load for name, load in resources.corpora.items() if name in {*resources.own_corpora, *others}}
        files = await self._threads.run(partial(write_corpora, wanted, Path(folder.name)))
        for isolated in self._isolated.values():
            await isolated.start(resources, files)

    async def _answer(self, call: ToolCall, context: ToolContext, count: ToolCount) -> tuple[str, bool]:
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.tools) or "none"
            return f"Error: there is no tool {clip_text(call.name, 40)!r}; the tools are: {known}.", True
        try:
            arguments = tool.Arguments.model_validate(call.arguments)
        except ValidationError as error:
            return argument_error(call.name, error), True
        except Exception as error:
            return error_text(call.name, error), True
        timeout = self._timeouts[call.name]
        try:
            if call.name in self._isolated:
                return await self._isolated[call.name].call(call.arguments, context, timeout)
            return await self._run(tool, arguments, context, timeout), False
        except CallTimeout:
            count.timeouts += 1
            return f"Error: {call.name} did not answer within {timeout:g} seconds.", True
        except Exception as error:
            return error_text(call.name, error), True

    async def _run(self, tool: Tool, arguments: BaseModel, context: ToolContext, timeout: float) -> str:
        """Run a tool in this process and return its text."""

        def run() -> str | Awaitable[str]:
            context.deadline = time.monotonic() + timeout
            value = tool.run(arguments, context)
            return _text_of(value) if inspect.isawaitable(value) else to_text(value)

        return str(await self._caller.call(run, timeout, on_loop=inspect.iscoroutinefunction(tool.run)))


def _numbers(tool: str, metrics: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers that a call recorded; logs a warning about anything else."""
    numbers = {}
    for name, value in metrics.items():
        if isinstance(value, Real) and math.isfinite(value):
            numbers[str(name)] = float(value)
        else:
            _LOG.warning("tool %s recorded the metric %s as %.80r, which is not a finite number", tool, name, value)
    return numbers


async def _text_of(value: Awaitable[Any]) -> str:
    return to_text(await value)
