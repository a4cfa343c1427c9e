"""Rollouts for the laws: the real collector, environment and tool runner around an engine whose every word is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from agent_r1_tool_calling.env import ToolCalling
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import EnvServices, RewardFn, Sampling, Task, Tool, ToolCall, ToolEnv, ToolResources
from agent_r1_core.chat import ChatTokenizer, Sampled
from agent_r1_core.contracts.engine import Engine, EngineConfig, EngineModel, Generation, Request
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutResult, RolloutSettings, WeightedReward
from agent_r1_core.testing import tiny_tokenizer
from agent_r1_core.tools.tool_counts import ToolCounts
from agent_r1_core.tools.tool_runner import ToolRunner
from agent_r1_core.trajectory import Trajectory

TOKENIZER = ChatTokenizer(tiny_tokenizer(), name="tiny")
ROUND = 3
T = TypeVar("T")
BOTH_MODES = pytest.mark.parametrize("deterministic", [False, True])


class Recorder(Engine):
    """Passes requests on to another engine, and keeps what was asked and answered, by episode."""

    def __init__(self, inner: Engine, config: EngineConfig | None = None) -> None:
        super().__init__(config)
        self.inner = inner
        self.heard: dict[str, list[tuple[Request, Generation]]] = {}

    async def start(self, model: EngineModel) -> None:
        await self.inner.start(model)

    async def generate(self, request: Request) -> Generation:
        return self._keep(request, await self.inner.generate(request))

    async def generate_batch(self, requests: Sequence[Request]) -> list[Generation]:
        made = await self.inner.generate_batch(requests)
        return [self._keep(request, generation) for request, generation in zip(requests, made, strict=True)]

    async def release(self, episode: str) -> None:
        await self.inner.release(episode)

    async def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        await self.inner.load_weights(weights, version)

    async def close(self) -> None:
        await self.inner.close()

    def of(self, trajectory: Trajectory) -> list[tuple[Request, Generation]]:
        """What was asked and answered in a trajectory's episode, turn by turn."""
        return self.heard[f"{ROUND}/{trajectory.id}/{trajectory.attempts}"]

    def sampled(self, trajectory: Trajectory) -> list[Sampled]:
        """The same, as the drift guard takes it."""
        return [Sampled(request.ids, made.ids, made.context) for request, made in self.of(trajectory)]

    def _keep(self, request: Request, generation: Generation) -> Generation:
        self.heard.setdefault(request.episode, []).append((request, generation))
        return generation


class Right(RewardFn):
    """1 for the right answer."""

    name = "right"

    def score(self, trajectory: Trajectory) -> float:
        return float(trajectory.answer == "Tavelo")


class Stage:
    """One rollout after another on the same tools; `counts` are theirs."""

    def __init__(
        self,
        engine: Engine,
        tools: Sequence[Tool] = (),
        *,
        tokenizer: ChatTokenizer = TOKENIZER,
        make_env: Callable[[EnvServices], ToolEnv] | None = None,
        env: Mapping[str, Any] | None = None,
        rewards: Sequence[RewardFn | WeightedReward] = (),
        timeouts: Mapping[str, float] | None = None,
        isolation: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """`env` are options of the tool-calling environment, `settings` fields of RolloutSettings."""
        config = ToolCalling.Config(**({"system_prompt": ""} | dict(env or {})))
        episodes = settings.get("max_episodes", 128)
        named = {tool.name: tool for tool in tools}
        self.engine = engine
        self.runner = ToolRunner(named, timeouts, isolation, max_concurrency=episodes)
        given: dict[str, Any] = {
            "sampling": Sampling(max_new_tokens=200),
            "tool_format": Hermes(),
            "tools": self.runner,
        }
        given["rewards"] = [one if isinstance(one, WeightedReward) else WeightedReward(one) for one in rewards]
        given["make_env"] = make_env or (lambda services: ToolCalling(config, services))
        self.collector = Collector(engine, tokenizer, RolloutSettings(**given | settings))

    @property
    def counts(self) -> ToolCounts:
        """What the tools did so far."""
        return self.runner.counts

    def play(self, tasks: Sequence[Task], samples: int = 1, on_episode: Any = None, **more: Any) -> RolloutResult:
        """One rollout from start to end; `more` are fields of the RolloutRequest."""
        request = RolloutRequest(tasks, samples, **({"round": ROUND} | more))
        return self.run(self.collector.collect(request, on_episode))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Work that needs the tools; they and the engine are closed after it."""

        async def whole() -> T:
            await self.runner.start(ToolResources(""))
            try:
                return await work
            finally:
                self.collector.close()
                await self.runner.close()
                await self.engine.close()

        return asyncio.run(whole())


def call(tool_name: str, /, **arguments: Any) -> str:
    """An action that calls a tool."""
    return Hermes().render_call(ToolCall(tool_name, arguments))


def questions(count: int) -> list[Task]:
    """Tasks q0, q1, ..."""
    return [Task(f"q{index}", f"Where was Name{index} born?", ("Tavelo",)) for index in range(count)]
