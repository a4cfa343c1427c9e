"""Plays worlds without a model."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from agent_r1_core import Action, EnvServices, Observation, Step, Task, ToolEnv

World = Callable[..., ToolEnv]


@pytest.fixture
def begun() -> World:
    """`begun(Class, seed=7, luck=0, **options)`: an environment after its reset."""

    def begin(cls: type[ToolEnv], seed: int = 7, luck: int = 0, **options: Any) -> ToolEnv:
        env = cls(cls.Config(**options), EnvServices(rng=random.Random(luck)))
        env.first = env.reset(Task("t", "Begin.", seed=seed))  # type: ignore[attr-defined]
        return env

    return begin


def text_of(observation: Observation) -> str:
    return str(observation.messages[0]["content"])


@pytest.fixture
def answer() -> Callable[[ToolEnv, str], Step]:
    """Takes actions that are written as the policy writes them."""
    return lambda env, names: env.step(Action(f"<answer>{names}</answer>"))  # type: ignore[return-value]
