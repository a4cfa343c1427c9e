"""Frozen models: those of a run that never learn, because they play along in its environment or rewards ask them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_r1_core.chat import ChatTokenizer, Conversation
from agent_r1_core.contracts.engine import Engine, EngineModel, Request, Sampling
from agent_r1_core.contracts.reward import Reply
from agent_r1_core.errors import ConfigError

if TYPE_CHECKING:
    from agent_r1_core.assembly.blueprint import Blueprint
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.rollout import WeightedReward
    from agent_r1_core.trajectory import Message


def frozen_names(resolved: ResolvedConfig) -> set[str]:
    """The names, as in `model.name` or `start`, of the models that play along or that rewards ask."""
    named = [("env", resolved.config.env), *(("reward", one) for one in resolved.config.rewards)]
    classes: list[tuple[Any, Any]] = [(resolved.registry.load(kind, one.name).cls, one.config) for kind, one in named]
    return {name for cls, config in classes if (name := cls.frozen_model(config)) is not None}


class FrozenModels:
    """The engines of the frozen models, one for each model."""

    def __init__(self, blueprint: Blueprint, make_engine: Callable[[], Engine]) -> None:
        self._blueprint = blueprint
        self._make_engine = make_engine
        self._engines: dict[str, tuple[Engine, EngineModel]] = {}

    @property
    def engines(self) -> list[tuple[Engine, EngineModel]]:
        return list(self._engines.values())

    def opponent(self) -> Engine | None:
        """The engine of the model that plays along, if one does; raises as `Blueprint.frozen_model`."""
        model = self._blueprint.frozen_opponent()
        return None if model is None else self._engine(model)

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
            self._engines[model.folder] = self._make_engine(), model
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
