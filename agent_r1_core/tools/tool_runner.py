"""ToolRunner: runs tool calls of many episodes at once; whatever a tool does becomes a result (LAW 9).

In this process arguments are validated, and results become text, in threads, since both may run the author's code.
Async tools run on the event loop, so one that blocks it blocks every episode. Such a tool needs `isolation: process`,
and so does one that never releases the interpreter's lock, crashes, or changes the process in which it runs.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_r1_core.chat import clip_text
from agent_r1_core.contracts.reward import reward_problem
from agent_r1_core.contracts.tool import CALL_TIMEOUT, Isolation, Tool, ToolContext, ToolLimits, ToolResources
from agent_r1_core.contracts.tool_format import ToolCall, ToolResult
from agent_r1_core.contracts.toolset import SchemaTool, Toolset
from agent_r1_core.errors import AgentR1Error, ConfigError, ToolError, describe_error
from agent_r1_core.tools.answer import call_tool, error_text, facts_of, failure_of, result_of
from agent_r1_core.tools.calling import await_within, call_within
from agent_r1_core.tools.corpus_files import CorpusFiles
from agent_r1_core.tools.isolated import IsolatedTool
from agent_r1_core.tools.process_state import SharedProcess
from agent_r1_core.tools.threads import CallTimeout, ThreadPool, ThreadTimeout, TooManyLeft
from agent_r1_core.tools.tool_counts import ToolCount, ToolCounts

if TYPE_CHECKING:
    from agent_r1_core.runs.call_log import CallLog

CALLS_PER_EPISODE = 4
"""Threads per episode, for the calls of one action."""

_LOG = logging.getLogger(__name__)


class ToolRunner:
    def __init__(
        self,
        tools: Mapping[str, Tool],
        timeouts: Mapping[str, float] | None = None,
        isolation: Mapping[str, Isolation] | None = None,
        max_concurrency: int = 128,
        limits: Mapping[str, ToolLimits] | None = None,
        wrap: Callable[[Tool], Tool] | None = None,
    ) -> None:
        """Prepare the tools; nothing is opened yet.

        Args:
            tools: by the name that the model uses; a toolset by any, whose members take its place at the start.
            timeouts: seconds per call, by tool; `CALL_TIMEOUT` where missing.
            isolation: `thread` or `process`, by tool; as the tool declares where missing.
            max_concurrency: episodes at once.
            limits: of the processes of isolated tools, by tool.
            wrap: wraps every tool that the model sees.

        Raises:
            ConfigError: a tool of `isolation: process` cannot be imported by another process, or defines `release`.
        """
        self._wrap = wrap or (lambda tool: tool)
        self.tools = {name: tool if isinstance(tool, Toolset) else self._wrap(tool) for name, tool in tools.items()}
        self.holding = _holding(self.tools)
        """Tools that hold something for an episode, until `release`."""
        self._timeouts = {name: float((timeouts or {}).get(name, CALL_TIMEOUT)) for name in self.tools}
        self._isolated = {
            name: IsolatedTool(tool, max_concurrency, (limits or {}).get(name, ToolLimits()))
            for name, tool in self.tools.items()
            if (isolation or {}).get(name, tool.isolation) == "process"
        }
        for name in self.holding & self._isolated.keys():
            problem = "holds something for each episode, which isolation: process does not offer; leave it out"
            raise ConfigError(f"tool {name} {problem}")
        self._threads = ThreadPool(max_concurrency * CALLS_PER_EPISODE)
        self.process = SharedProcess()
        """Watches what calls change here, those of environments too."""
        self._log: CallLog | None = None
        self._opened: list[Tool] = []
        self._members: dict[str, list[tuple[str, Tool]]] = {}
        """Of each toolset, by the name that the model uses."""
        self._facts: dict[str, dict[str, Any] | None] = {}
        self._corpora = CorpusFiles()
        self._counts: dict[str, ToolCount] = {}
        self._misrewarding: set[str] = set()
        """Tools that gave a reward which they may not give; each is named once."""

    def log_calls(self, log: CallLog) -> None:
        """Record the calls that run in this process, from now on."""
        self._log = log

    @property
    def counts(self) -> ToolCounts:
        """A copy of the counts so far."""
        killed = sum(tool.killed for tool in self._isolated.values())
        return ToolCounts(
            {name: count + ToolCount() for name, count in self._counts.items()}, self._threads.hung + killed
        )

    async def start(self, resources: ToolResources) -> None:
        """Open every tool; an AgentR1Error where one cannot be opened: the others are closed again."""
        try:
            for name, tool in self.tools.items():
                if name not in self._isolated:
                    await self._open(name, tool, resources)
            if self._isolated:
                await self._start_isolated(resources)
            self._add_members()
        except BaseException:
            await self.close()
            raise

    def describe(self) -> dict[str, dict[str, Any]]:
        """What the opened tools and toolsets say about themselves, by name."""
        return {name: facts for name in self._timeouts if (facts := self._facts.get(name)) is not None}

    async def call(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a call; whatever goes wrong becomes a result that the model can read.

        Raises:
            TooManyLeft: too many calls that were given up still run.
        """
        begun = time.perf_counter()
        count = self._counts.setdefault(call.name if call.name in self.tools else "", ToolCount())
        result = await self._result(call, context, count)
        seconds = time.perf_counter() - begun
        count.add(error=result.error, seconds=seconds, numbers=result.metrics)
        return replace(result, name=clip_text(call.name, 40), seconds=seconds)

    async def use(self, name: str, function: Callable[[], Any], convert: Callable[[Any], Any]) -> Any:
        """What `convert` makes of a tool's own function, called in this process within the time-out of its calls.

        Raises:
            ToolError: the function took longer, or raised.
        """
        timeout = self._timeouts[name]
        try:
            return await call_within(self._threads, function, timeout, name=f"tool {name}", convert=convert)
        except CallTimeout:
            problem = f"did not answer within {timeout:g} seconds; make it faster, or raise its timeout"
            raise ToolError(f"tool {name} {problem}") from None
        except AgentR1Error:
            raise
        except Exception as error:
            raise ToolError(f"tool {name} failed with {describe_error(error)}; fix it") from error

    async def release(self, name: str, context: ToolContext) -> None:
        """Have a tool release what it holds for an episode; one that fails or hangs costs a warning."""
        try:
            release = partial(self.tools[name].release, context)
            await call_within(self._threads, release, self._timeouts[name], name=f"tool {name}")
        except Exception as error:
            _LOG.warning("tool %s did not release episode %s: %s", name, context.episode, describe_error(error))

    async def close(self) -> None:
        """Close the tools and end threads and processes; hung threads are abandoned and delay nothing."""
        for isolated in self._isolated.values():
            await isolated.close()
        while self._opened:
            tool = self._opened.pop()
            try:
                await call_within(self._threads, tool.close, CALL_TIMEOUT)
            except Exception as error:
                _LOG.warning("tool %s could not be closed: %s", tool.name, describe_error(error))
        self._corpora.close()
        self._threads.close()

    async def _open(self, name: str, tool: Tool, resources: ToolResources) -> None:
        try:
            await call_within(self._threads, partial(tool.open, resources))
            self._opened.append(tool)
            if isinstance(tool, Toolset):
                members = await call_within(self._threads, tool.members)
                self._members[name] = [(member.name, self._wrap(member)) for member in members]
        except AgentR1Error:
            raise
        except Exception as error:
            raise ToolError(f"tool {name} cannot be opened: {describe_error(error)}; check its open()") from error
        self._facts[name] = await self._threads.run(partial(facts_of, tool))

    def _add_members(self) -> None:
        """Put the members of each toolset in its place.

        Raises:
            ConfigError: two tools have one name.
        """
        tools: dict[str, Tool] = {}
        brought_by: dict[str, str] = {}
        for name, tool in self.tools.items():
            for called, one in self._members.get(name, [(name, tool)]):
                if called in tools:
                    both = " and ".join(dict.fromkeys((brought_by[called], name)))
                    raise ConfigError(
                        f"two tools are named {called} ({both}); give one a prefix, or offer only one of them"
                    )
                tools[called], brought_by[called] = one, name
                self._timeouts[called] = self._timeouts[name]
        self.tools, self.holding = tools, _holding(tools)

    async def _start_isolated(self, resources: ToolResources) -> None:
        """Open the isolated tools; their corpora are files that exist as long as the runner."""
        others = {name for isolated in self._isolated for name in self.tools[isolated].other_corpora()}
        wanted = {name: load for name, load in resources.corpora.items() if name in {*resources.own_corpora, *others}}
        files = await self._threads.run(partial(self._corpora.write, wanted))
        for name, isolated in self._isolated.items():
            await isolated.start(resources, files)
            self._facts[name] = isolated.facts

    async def _result(self, call: ToolCall, context: ToolContext, count: ToolCount) -> ToolResult:
        tool = self.tools.get(call.name)
        if tool is None:
            text = f"there is no tool {clip_text(call.name, 40)!r}; the tools are: {', '.join(self.tools) or 'none'}"
            return ToolResult(call.name, f"Error: {text}.", error=True)
        timeout, isolated = self._timeouts[call.name], self._isolated.get(call.name)
        try:
            if isolated is not None:
                result = await isolated.call(call.arguments, context, timeout)
            else:
                result = await self._call_here(tool, call, context, timeout)
            self._check_reward(call.name, tool, result.reward)
            return result
        except TooManyLeft:
            raise
        except CallTimeout as error:
            count.timeouts += 1
            if isinstance(error, ThreadTimeout) and count.timeouts == 1 and not isinstance(tool, SchemaTool):
                _LOG.warning(
                    "a call of tool %s ran into its timeout (%g s), and its thread cannot be ended: with "
                    "isolation: process its process would be killed",
                    *(call.name, timeout),
                )
            return ToolResult(call.name, f"Error: {call.name} did not answer within {timeout:g} seconds.", error=True)
        except Exception as error:
            return ToolResult(call.name, error_text(call.name, error), error=True)

    async def _call_here(self, tool: Tool, call: ToolCall, context: ToolContext, timeout: float) -> ToolResult:
        """Run a call in this process; raises CallTimeout where it does not end in time."""
        await self._threads.wait_for_room()
        with self.process.call(f"tool {tool.name}"):
            return await self._watched(tool, call, context, timeout)

    async def _watched(self, tool: Tool, call: ToolCall, context: ToolContext, timeout: float) -> ToolResult:
        deadline = math.inf

        def begin() -> int:
            return 0 if self._log is None else self._log.begin(tool.name, context.episode, context.turn)

        def end(place: int) -> None:
            self.process.returned(f"tool {tool.name}")
            if self._log is not None:
                self._log.end(place)

        def run() -> ToolResult | Awaitable[Any]:
            nonlocal deadline
            context.deadline = deadline = time.monotonic() + timeout
            place = begin()
            try:
                return call_tool(tool, call.arguments, context)
            finally:
                end(place)

        in_thread = partial(self._threads.run, timeout=timeout, name=f"tool {tool.name}")
        value: Any = await in_thread(run)
        if type(value) is ToolResult:
            return value
        place = begin()
        self.process.begin_on_loop()
        try:
            finish = partial(result_of, tool, await await_within(value, deadline - time.monotonic()), context)
        except CallTimeout:
            raise
        except Exception as error:
            finish = partial(failure_of, tool, error, context)
        finally:
            end(place)
            self.process.end_on_loop(f"tool {tool.name}")
        result: ToolResult = await in_thread(finish)
        return result

    def _check_reward(self, name: str, tool: Tool, reward: float) -> None:
        """Raise a ValueError for a reward outside the range that the tool declares."""
        problem = reward_problem(reward, tool.reward_range)
        if problem is None:
            return
        if name not in self._misrewarding:
            self._misrewarding.add(name)
            _LOG.warning("tool %s %s: such calls fail and earn nothing", name, problem)
        raise ValueError(f"it {problem}")


def _holding(tools: Mapping[str, Tool]) -> set[str]:
    return {name for name, tool in tools.items() if type(tool).release is not Tool.release}
