"""Both roles of a run in this process: an engine that plays and a learner that computes in its own thread.

Frozen models have engines of their own: those of a run that never learn, because they play along in its environment or
rewards ask them.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.assembly.components import make_learner, make_rewards, make_rollout_settings, make_tools
from agent_r1_core.assembly.roles import check_version
from agent_r1_core.assembly.task_sets import tool_resources
from agent_r1_core.chat import ChatTokenizer, Conversation
from agent_r1_core.contracts.engine import Engine, EngineModel, Request, Sampling
from agent_r1_core.contracts.reward import Reply
from agent_r1_core.errors import ConfigError, EngineError
from agent_r1_core.rollout import Collector
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.tools.threads import ThreadPool
from agent_r1_core.work.running import trim_memory

if TYPE_CHECKING:
    from torch import Tensor

    from agent_r1_core.assembly.blueprint import Blueprint
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.contracts.token_numbers import TokenNumbers
    from agent_r1_core.contracts.tool import ToolResources
    from agent_r1_core.learning.forward import Family
    from agent_r1_core.learning.learner import CapturedState, Learner
    from agent_r1_core.learning.update import Update
    from agent_r1_core.rollout import OnEpisode, RolloutRequest, RolloutResult, WeightedReward
    from agent_r1_core.runs.call_log import CallLog
    from agent_r1_core.tools.tool_runner import ToolRunner
    from agent_r1_core.trajectory import Group, Message, Trajectory

_LARGE = 2**26
"""Bytes of a policy from which freed memory is given back after each update: 5 GB of 13 in runs of 135 M parameters.
That takes a tenth of a step of the bundled model, which holds little."""


@dataclass
class Stage:
    """Where the episodes of a task set are played: all that it takes except the engine, which the stages share."""

    tools: ToolRunner
    resources: ToolResources
    collector: Collector


def local_roles(blueprint: Blueprint) -> tuple[LocalRollouts, LocalLearner | None]:
    """Both roles in this process; raises as `Site.make_roles`."""
    rollouts = local_rollouts(blueprint)
    if not blueprint.learning:
        return rollouts, None
    learner = make_learner(blueprint)
    weights = sum(parameter.nbytes for parameter in learner.policy.module.parameters())
    return rollouts, LocalLearner(learner, trims=weights >= _LARGE)


def local_rollouts(blueprint: Blueprint) -> LocalRollouts:
    """Rollouts in this process; raises as `Site.make_roles`."""
    engine, frozen = _make_engine(blueprint.resolved), FrozenModels(blueprint)
    stages = {name: _stage(name, blueprint, engine, frozen) for name in blueprint.stages}
    return LocalRollouts(engine, stages, blueprint.engine_model(), frozen.engines)


def _make_engine(resolved: ResolvedConfig) -> Engine:
    engine: Engine = resolved.make("engine", resolved.config.engine)
    return engine


def _stage(name: str, blueprint: Blueprint, engine: Engine, frozen: FrozenModels) -> Stage:
    """The stage of the task set `name`, with a collector over the shared engines."""
    resolved = blueprint.resolved
    tools = make_tools(resolved, resolved.config.engine.config.max_episodes, blueprint.wrap_tool)
    rewards = make_rewards(resolved)
    frozen.connect(rewards)
    settings = make_rollout_settings(resolved, tools, rewards, blueprint.examples)
    resources = tool_resources(resolved, blueprint.sets, name, blueprint.tokenizer.name)
    return Stage(tools, resources, Collector(engine, blueprint.tokenizer, settings, frozen.opponent()))


class FrozenModels:
    """The engines of the frozen models, one for each model."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self._engines: dict[str, tuple[Engine, EngineModel]] = {}

    @property
    def engines(self) -> list[tuple[Engine, EngineModel]]:
        return list(self._engines.values())

    def opponent(self) -> Engine | None:
        """The engine of the model that plays along in the recipe's environment, if one does; it reads the policy's ids.

        Raises:
            ConfigError: its tokenizer is another one, or nothing says which model is meant.
            ModelError, RunError: it is not available.
        """
        resolved = self._blueprint.resolved
        env: Any = resolved.registry.load("env", resolved.config.env.name).cls
        name = env.frozen_model(resolved.config.env.config)
        if name is None:
            return None
        if name != "start":
            self._blueprint.with_same_ids(name)
        return self._engine(self._blueprint.frozen_model(name))

    def connect(self, rewards: Sequence[WeightedReward]) -> None:
        """Let rewards ask their models.

        Raises:
            ConfigError: a reward that compares groups names one; or as `Blueprint.frozen_model`.
            ModelError, RunError: as `Blueprint.frozen_model`.
        """
        for reward in (weighted.reward for weighted in rewards):
            name = reward.frozen_model(reward.config)
            if name is None:
                continue
            if reward.scope == "group":
                raise ConfigError(f"reward {reward.name} compares groups, which are scored where no frozen model is")
            model = self._blueprint.frozen_model(name)
            reward.connect(partial(_ask, self._engine(model), model.tokenizer))

    def _engine(self, model: EngineModel) -> Engine:
        if model.folder not in self._engines:
            self._engines[model.folder] = _make_engine(self._blueprint.resolved), model
        return self._engines[model.folder][0]


async def _ask(
    engine: Engine, tokenizer: ChatTokenizer, messages: Sequence[Message], sampling: Sampling, begin: str = ""
) -> Reply:
    conversation = Conversation(tokenizer)
    if conversation.is_quick(messages):
        conversation.observe(messages)
    else:
        await asyncio.to_thread(conversation.observe, messages)
    ids = (*conversation.context, *(tokenizer.encode(begin) if begin else ()))
    said = (await engine.generate(Request(ids, sampling, seed=0, stop_ids=tokenizer.eos_ids))).ids
    text = tokenizer.decode(said[:-1] if said[-1] in tokenizer.eos_ids else said)
    return Reply(begin + text, len(ids), len(said))


class LocalRollouts:
    """Rollouts of one engine.

    Args:
        stages: by the name of the task set.
        model: what the engine starts with.
        frozen: engines whose weights never change, for frozen models.
    """

    def __init__(
        self,
        engine: Engine,
        stages: Mapping[str, Stage],
        model: EngineModel,
        frozen: Sequence[tuple[Engine, EngineModel]] = (),
    ) -> None:
        self.engine = engine
        self.stages = stages
        self._engines = [(engine, model), *frozen]
        self._version: int | None = None
        """The version of the served weights; None before the first."""

    async def start(self) -> None:
        """Open the tools and start the engine; what exists by then is spared by Python's collections of garbage.

        Libraries and models hold half a million objects, and a collection of them all takes 0.2 seconds.
        """
        for stage in self.stages.values():
            await stage.tools.start(stage.resources)
        for engine, model in self._engines:
            await engine.start(model)
        gc.freeze()

    def tools(self, split: str) -> dict[str, dict[str, Any]]:
        return self.stages[split].tools.describe()

    def log_calls(self, log: CallLog) -> None:
        for stage in self.stages.values():
            stage.tools.log_calls(log)

    async def collect(self, request: RolloutRequest, on_episode: OnEpisode | None = None) -> RolloutResult:
        check_version(request.version, self._version, "the engine serves")
        return await self.stages[request.split].collector.collect(request, on_episode)

    def broken(self) -> EngineError | None:
        """Why the engine can serve nothing any more."""
        return next((error for engine, _ in self._engines if (error := engine.broken()) is not None), None)

    async def rest(self) -> None:
        await self.engine.sleep()

    async def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        await self.engine.load_weights(weights, version)
        self._version = version

    async def write(
        self, file: Path, step: int | None, trajectories: Sequence[Trajectory], numbers: TokenNumbers | None = None
    ) -> None:
        write_trajectories(file, step, trajectories, numbers)

    async def written(self) -> None:
        """Wait for nothing: `write` returns when the file is there."""

    async def close(self) -> None:
        gc.unfreeze()
        try:
            for engine, _ in self._engines:
                await engine.close()
        finally:
            for stage in self.stages.values():
                await stage.tools.close()
                stage.collector.close()


class LocalLearner:
    """A learner that computes in its own thread, so that the event loop stays free.

    Args:
        trims: gives freed memory back to the system after each update.
    """

    def __init__(self, learner: Learner, trims: bool = False) -> None:
        self.learner = learner
        self._trims = trims
        self._lane = ThreadPool(1).lane()
        self._idle = threading.Event()
        self._idle.set()
        self._stopped = threading.Event()

    async def start(self) -> None:
        """Do nothing: the learner was made ready."""

    async def update(self, groups: Sequence[Group], step: int) -> Update:
        self._stopped.clear()
        self._idle.clear()
        try:
            update: Update = await self._lane.run(lambda: self._update(groups, step))
        except asyncio.CancelledError:
            self._stopped.set()
            await asyncio.to_thread(self._idle.wait)
            raise
        return update

    async def score(self, families: Sequence[Family]) -> list[list[list[float]]]:
        scores: list[Tensor] = await self._lane.run(lambda: self.learner.score(families))
        return [family.tolist() for family in scores]

    async def snapshot(self) -> Mapping[str, Tensor]:
        return self.learner.policy.weights()

    def save_policy(self, folder: Path) -> None:
        self.learner.policy.save(folder)

    async def capture(self, copy: bool = True) -> CapturedState:
        from agent_r1_core.learning.learner import CapturedState

        captured: CapturedState = await self._lane.run(lambda: CapturedState(self.learner, copy))
        return captured

    async def close(self) -> None:
        """Release nothing."""

    def _update(self, groups: Sequence[Group], step: int) -> Update:
        try:
            return self.learner.update(groups, step, stopped=self._stopped.is_set)
        finally:
            if self._trims:
                trim_memory()
            self._idle.set()
