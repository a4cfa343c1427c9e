"""World: the environment of one episode, and the only place that calls it; and the tools as an episode sees them.

The environment's code runs in the episode's own thread, within its time-out; what it answers is plain data. Async
methods run on the event loop, where one that blocks holds up every episode.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import random
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.env import Action, EnvServices, Observation, Step, ToolEnv
from agent_r1_core.contracts.markup import encodable
from agent_r1_core.contracts.tool import ToolContext
from agent_r1_core.contracts.tool_format import ToolCall, ToolFormat, ToolResult
from agent_r1_core.errors import EpisodeError
from agent_r1_core.rollout.env_checks import observation_of, opening_of, step_of
from agent_r1_core.rollout.settings import RolloutSettings
from agent_r1_core.seeds import derive_seed
from agent_r1_core.tools.calling import as_it_is, await_within, call_within
from agent_r1_core.tools.plain import Unfit, is_plain, plain, shown
from agent_r1_core.tools.threads import CallTimeout, ThreadPool
from agent_r1_core.tools.tool_runner import ToolRunner
from agent_r1_core.trajectory import Message, Task, Turn

Described = tuple[list[dict[str, Any]], str]


@dataclass
class EpisodeTools:
    """The run's tools as one episode sees them, with its own state and random numbers: `EnvServices.call_tools`.

    They see its task without answers, and without what may reveal them (LAW 12).
    """

    runner: ToolRunner
    episode: str
    task: Task
    seed: int
    turn: int = 0
    rewards: dict[str, float] = field(default_factory=dict)
    """Where the rewards of calls go: those of their turn. What a call earns after its turn is lost."""
    state: dict[str, Any] = field(default_factory=dict)
    held: dict[str, asyncio.Lock] = field(default_factory=dict)
    """By tool that was called and holds something for the episode: its calls take turns."""

    async def __call__(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Run the calls of an action concurrently; results in their order."""
        running = [self._call(call, self._context(index)) for index, call in enumerate(calls)]
        rewards = self.rewards
        results = list(await asyncio.gather(*running))
        for call, result in zip(calls, results, strict=True):
            if result.reward and rewards is self.rewards:
                rewards[call.name] = rewards.get(call.name, 0.0) + result.reward
        return results

    async def release(self) -> None:
        """The episode is over: have its tools release what they hold for it."""
        await asyncio.gather(*(self.runner.release(name, self._context(0)) for name in self.held))

    def begin_turn(self, turn: Turn) -> None:
        """The calls that follow are of this turn, until `end_turn`."""
        self.turn, self.rewards = turn.index, turn.rewards

    def end_turn(self) -> None:
        """The environment has answered."""
        self.rewards = {}

    async def _call(self, call: ToolCall, context: ToolContext) -> ToolResult:
        if call.name not in self.runner.holding:
            return await self.runner.call(call, context)
        async with self.held.setdefault(call.name, asyncio.Lock()):
            return await self.runner.call(call, context)

    def _context(self, index: int) -> ToolContext:
        rng = random.Random(derive_seed(self.seed, "tool", self.turn, index))
        seen = replace(self.task, answers=(), metadata={}, demonstration=())
        return ToolContext(self.episode, self.turn, seen, rng, self.state)


class ToolTexts:
    """The tools of a rollout's environments as the policy reads them; the last are kept, since most have the same."""

    def __init__(self, tokenizer: ChatTokenizer, tool_format: ToolFormat | None) -> None:
        self._tokenizer = tokenizer
        self._tool_format = tool_format
        if tool_format is not None:
            tool_format.attach(tokenizer)
        self._last: tuple[bytes, Described] = (b"", ([], ""))

    def describe(self, given: Any) -> Described:
        """Schemas as data, for the chat template, and the text that describes the tools where it shows none. A template
        that teaches calls of another syntax than the format's gets no schemas.

        Raises:
            Unfit: they are no schemas.
        """
        schemas: list[dict[str, Any]] = plain(given)
        if type(schemas) is not list or not all(type(schema) is dict for schema in schemas):
            raise Unfit(f"gave the tool schemas {shown(schemas)}; use a list of dictionaries")
        if not schemas:
            return [], ""
        key = pickle.dumps(schemas)
        known, described = self._last
        if known != key:
            schemas = self._tokenizer.control.protect_all(schemas)
            form = self._tool_format
            text = plain(form.describe_tools(schemas)) if form is not None else ""
            described = schemas if form is None or self._tokenizer.template.agrees_with(form) else [], text
            self._last = key, described
        return described


class World:
    """Makes an environment, and calls it until it is closed."""

    def __init__(self, settings: RolloutSettings, threads: ThreadPool, episode: str) -> None:
        """Prepare; nothing is made yet. Errors name the episode by its id."""
        self.lane = threads.lane()
        self.max_turns = self.max_tokens = 0
        """The episode's budgets."""
        self.stop_strings: tuple[str, ...] = ()
        self._settings = settings
        self._threads = threads
        self._episode = episode
        self._timeout = settings.make_timeout
        self._env: ToolEnv | None = None
        self._closed = False
        self._handing = threading.Lock()
        """Held while the environment changes hands: its closer is `close`, or the thread that made it too late."""

    async def make(self, services: EnvServices, tools: ToolTexts) -> Described:
        """Make the environment; returns the schemas of its tools, and the text that describes them."""

        def make() -> Described:
            env = self._settings.make_env(services)
            with self._handing:
                late, self._env = self._closed, None if self._closed else env
            if late:
                _close_here(env)
                return [], ""  # nobody waits for it
            self.max_turns, self.max_tokens = int(env.config.max_turns), int(env.config.max_tokens)
            self._timeout = float(env.config.timeout)
            if type(env).stop_strings is ToolEnv.stop_strings:
                self.stop_strings = _stop_strings(env.stop_strings())
            return tools.describe(env.tool_schemas())

        return await self._call("making the environment", make)

    async def reset(self, task: Task) -> Observation:
        """Begin the episode, with a copy of the task, since others have the same one; then ask for the environment's
        own stop strings, if it has any."""
        env, own = self.env, partial(_own, task)
        copied = own() if is_plain(task.metadata) else await self._call(f"copying task {task.id}", own)
        observation: Observation = await self.call(env.reset, copied, convert=opening_of)
        if type(env).stop_strings is not ToolEnv.stop_strings:
            self.stop_strings = await self.call(env.stop_strings, convert=_stop_strings)
        return observation

    async def step(self, action: Action) -> Step:
        step: Step = await self.call(self.env.step, action, convert=step_of)
        return step

    @property
    def only_answers(self) -> bool:
        """Whether the environment neither calls requests off nor knows of later ones."""
        kind = type(self.env)
        return kind.abandoned is ToolEnv.abandoned and kind.ahead is ToolEnv.ahead

    async def abandoned(self) -> None:
        await await_within(self.env.abandoned(), None)

    async def ahead(self) -> Observation:
        try:
            return observation_of(await await_within(self.env.ahead(), None))
        except Unfit as unfit:
            raise EpisodeError(f"{type(self.env).__name__}.ahead {unfit} (episode {self._episode})") from None

    async def close(self) -> None:
        """Close the environment, if there is one, and give the thread back."""
        with self._handing:
            env, self._env, self._closed = self._env, None, True
        try:
            if env is not None and type(env).close is not ToolEnv.close:
                await self.call(env.close, convert=lambda closed: None)
        finally:
            self.lane.release()

    async def call(self, method: Callable[..., Any], *arguments: Any, convert: Callable[[Any], Any]) -> Any:
        """Call a method of the environment, or of another component that serves this episode.

        Raises:
            EpisodeError: it took too long, or `convert` found its answer unfit.
        """
        return await self._call(f"{method.__qualname__}()", partial(method, *arguments), convert)

    async def _call(self, name: str, function: Callable[[], Any], convert: Callable[[Any], Any] = as_it_is) -> Any:
        timeout = self._timeout
        # The tools that an async method calls are watched themselves.
        watched = name.endswith("()") and not inspect.iscoroutinefunction(function)
        try:
            with self._settings.tools.process.call(name) if watched else nullcontext():
                return await call_within(self._threads, function, timeout, self.lane, name.removesuffix("()"), convert)
        except CallTimeout:
            if self._env is not None and self._env.overdue:
                raise EpisodeError(
                    f"{self._env.overdue} within {timeout:g} seconds in episode {self._episode}; raise env.timeout if "
                    "it needs longer"
                ) from None
            raise EpisodeError(f"{name} took longer than {timeout:g} seconds in episode {self._episode}") from None
        except Unfit as unfit:
            raise EpisodeError(f"{name} {unfit} (episode {self._episode})") from None

    @property
    def env(self) -> ToolEnv:
        """The environment; an EpisodeError where there is none yet."""
        if self._env is None:
            raise EpisodeError(f"episode {self._episode} has no environment yet; call start() first")
        return self._env


def recorded(messages: Sequence[Message]) -> list[Message]:
    """The messages as files and trackers can hold them."""
    return [
        cast(Message, {key: encodable(text) if isinstance(text, str) else text for key, text in message.items()})
        for message in messages
    ]


def _own(task: Task) -> Task:
    """The task with a prompt and metadata that may be changed."""
    return replace(task, prompt=copy.deepcopy(task.prompt), metadata=copy.deepcopy(task.metadata))


def _close_here(env: ToolEnv) -> None:
    """Close an environment in this thread, where no event loop runs."""
    closing = env.close()
    if inspect.isawaitable(closing):
        asyncio.run(_awaited(closing))


async def _awaited(value: Awaitable[None]) -> None:
    await value


def _stop_strings(given: Any) -> tuple[str, ...]:
    strings = plain(given)
    if not isinstance(strings, list | tuple) or not all(isinstance(one, str) for one in strings):
        raise Unfit(f"gave the stop strings {shown(strings)}; use a tuple of texts")
    return tuple(str.__str__(one) for one in strings)
