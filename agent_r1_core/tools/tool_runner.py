"""ToolRunner: runs tool calls of many episodes at once; whatever a tool does becomes a result (LAW 9).

Async tools run on the event loop, so one that blocks it blocks every episode. Such a tool needs `isolation: process`,
and so does one that never releases the interpreter's lock, crashes, or changes the process in which it runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from agent_r1_core.chat import clip_text
from agent_r1_core.contracts.tool import CALL_TIMEOUT, Isolation, Tool, ToolContext, ToolLimits, ToolResources
from agent_r1_core.contracts.tool_format import ToolCall, ToolResult
from agent_r1_core.errors import AgentR1Error, ToolError, describe_error
from agent_r1_core.tools.answer import Answer
from agent_r1_core.tools.calling import Caller
from agent_r1_core.tools.corpus_files import CorpusFiles
from agent_r1_core.tools.in_process import CallLog, InProcessTools
from agent_r1_core.tools.isolated import IsolatedTool
from agent_r1_core.tools.left_behind import TooManyLeft
from agent_r1_core.tools.reward_bounds import reward_problem
from agent_r1_core.tools.threads import CallTimeout, ThreadPool
from agent_r1_core.tools.tool_counts import ToolCount, ToolCounts
from agent_r1_core.tools.wording import error_text, facts_of

CALLS_PER_EPISODE = 4
"""Threads per episode, for the calls of one action."""

_LOG = logging.getLogger(__name__)


class ToolRunner:
    """Runs tool calls."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        timeouts: Mapping[str, float] | None = None,
        isolation: Mapping[str, Isolation] | None = None,
        max_concurrency: int = 128,
        limits: Mapping[str, ToolLimits] | None = None,
    ) -> None:
        """Prepare the tools; nothing is opened yet.

        Args:
            tools: by the name that the model uses.
            timeouts: seconds per call, by tool; `CALL_TIMEOUT` where missing.
            isolation: `thread` or `process`, by tool; as the tool declares where missing.
            max_concurrency: episodes at once.
            limits: of the processes of isolated tools, by tool.

        Raises:
            ConfigError: a tool of `isolation: process` cannot be imported by another process.
        """
        self.tools = dict(tools)
        self._timeouts = {name: float((timeouts or {}).get(name, CALL_TIMEOUT)) for name in self.tools}
        self._isolated = {
            name: IsolatedTool(tool, max_concurrency, (limits or {}).get(name, ToolLimits()))
            for name, tool in self.tools.items()
            if (isolation or {}).get(name, tool.isolation) == "process"
        }
        self._threads = ThreadPool(max_concurrency * CALLS_PER_EPISODE)
        self._caller = Caller(self._threads)
        self._in_process = InProcessTools(self._threads)
        self._opened: list[Tool] = []
        self._facts: dict[str, dict[str, Any] | None] = {}
        self._corpora = CorpusFiles()
        self._counts: dict[str, ToolCount] = {}
        self._misrewarding: set[str] = set()
        """Tools that gave a reward which they may not give; each is named once."""

    def log_calls(self, log: CallLog) -> None:
        """Record the calls that run in this process, from now on."""
        self._in_process.log = log

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
        """What the opened tools say about themselves, by name."""
        return {name: facts for name in self.tools if (facts := self._facts.get(name)) is not None}

    async def call(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a call; whatever goes wrong becomes a result that the model can read.

        Raises:
            TooManyLeft: too many calls that were given up still run.
        """
        begun = time.perf_counter()
        count = self._counts.setdefault(call.name if call.name in self.tools else "", ToolCount())
        answer = await self._answer(call, context, count)
        seconds = time.perf_counter() - begun
        count.add(error=answer.error, seconds=seconds, numbers=answer.numbers)
        return ToolResult(clip_text(call.name, 40), answer.text, answer.error, seconds, answer.reward)

    async def close(self) -> None:
        """Close the tools and end threads and processes; hung threads are abandoned and delay nothing."""
        for isolated in self._isolated.values():
            await isolated.close()
        while self._opened:
            tool = self._opened.pop()
            try:
                await self._caller.call(tool.close, CALL_TIMEOUT)
            except Exception as error:
                _LOG.warning("tool %s could not be closed: %s", tool.name, describe_error(error))
        self._corpora.close()
        self._threads.close()

    async def _open(self, name: str, tool: Tool, resources: ToolResources) -> None:
        try:
            await self._caller.call(partial(tool.open, resources))
        except AgentR1Error:
            raise
        except Exception as error:
            raise ToolError(f"tool {name} cannot be opened: {describe_error(error)}; check its open()") from error
        self._opened.append(tool)
        self._facts[name] = await self._threads.run(partial(facts_of, tool))

    async def _start_isolated(self, resources: ToolResources) -> None:
        """Open the isolated tools; their corpora are files that exist as long as the runner."""
        others = {name for isolated in self._isolated for name in self.tools[isolated].other_corpora()}
        wanted = {name: load for name, load in resources.corpora.items() if name in {*resources.own_corpora, *others}}
        files = await self._threads.run(partial(self._corpora.write, wanted))
        for name, isolated in self._isolated.items():
            await isolated.start(resources, files)
            self._facts[name] = isolated.facts

    async def _answer(self, call: ToolCall, context: ToolContext, count: ToolCount) -> Answer:
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.tools) or "none"
            return Answer(f"Error: there is no tool {clip_text(call.name, 40)!r}; the tools are: {known}.", error=True)
        timeout, isolated = self._timeouts[call.name], self._isolated.get(call.name)
        try:
            if isolated is not None:
                answer = await isolated.call(call.arguments, context, timeout)
            else:
                answer = await self._in_process.call(tool, call, context, timeout)
            self._check_reward(call.name, tool, answer.reward)
            return answer
        except TooManyLeft:
            raise
        except CallTimeout:
            count.timeouts += 1
            if isolated is None and count.timeouts == 1:
                _LOG.warning(
                    "a call of tool %s ran into its timeout of %g seconds, and its thread cannot be ended: with "
                    "isolation: process its process would be killed",
                    *(call.name, timeout),
                )
            return Answer(f"Error: {call.name} did not answer within {timeout:g} seconds.", error=True)
        except Exception as error:
            return Answer(error_text(call.name, error), error=True)

    def _check_reward(self, name: str, tool: Tool, reward: float) -> None:
        """Refuse a reward outside the range that the tool declares.

        Raises:
            ValueError: it is outside, or the tool declares no range.
        """
        problem = reward_problem(reward, tool.reward_range)
        if problem is None:
            return
        if name not in self._misrewarding:
            self._misrewarding.add(name)
            _LOG.warning("tool %s %s: such calls fail and earn nothing", name, problem)
        raise ValueError(f"it {problem}")
