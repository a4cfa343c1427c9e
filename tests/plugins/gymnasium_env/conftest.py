"""Plays worlds without a model."""

from __future__ import annotations

import random
from typing import Any

from agent_r1_core import Action, EnvServices, Observation, Step, Task, ToolEnv


def begun(cls: type[ToolEnv], seed: int = 7, luck: int = 0, **options: Any) -> Any:
    """An environment after its reset, which gave `first`."""
    env = cls(cls.Config(**options), EnvServices(rng=random.Random(luck)))
    env.first = env.reset(Task("t", "Begin.", seed=seed))  # type: ignore[attr-defined]
    return env


def answer(env: ToolEnv, names: str) -> Step:
    """Takes actions that are written as the policy writes them."""
    return env.step(Action(f"<answer>{names}</answer>"))  # type: ignore[return-value]


def text_of(observation: Observation) -> str:
    return str(observation.messages[0]["content"])
