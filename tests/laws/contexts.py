"""The context strategies that the laws are tested with: every registered one with its presets, and some of their
options; and rollouts of a random model under each.

A new strategy, or preset, is under the laws by being registered.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agent_r1_transformers.engine import TransformersEngine
from stage import Recorder, Stage, questions

from agent_r1_core import ContextStrategy, RewardFn, Sampling, Turn
from agent_r1_core.contracts.engine import EngineModel
from agent_r1_core.plugins import Registry
from agent_r1_core.rollout import RolloutResult
from agent_r1_core.trajectory import Trajectory

REGISTRY = Registry.discover()
NAMES = [record.name for record in REGISTRY.components("context") if record.alias_of is None]
VARIANTS: dict[str, dict[str, Any]] = {
    "window_of_one": {"name": "window", "turns": 1},
    "summary_each_turn": {"name": "summary", "turns": 1, "summary_tokens": 9},
}
"""Options under which a context is rewritten at every turn."""
CONTEXTS: dict[str, str | dict[str, Any]] = {name: name for name in NAMES} | VARIANTS
every_context = pytest.mark.parametrize(
    "context", [*NAMES, *(pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS)]
)

MAX_TOKENS = 800
ENV = {"max_turns": 6, "max_tokens": MAX_TOKENS}
"""Six turns of noise and the environment's answers to it are longer than half of the budget, and shorter than it."""


def make(context: str) -> ContextStrategy:
    """A strategy by its name here."""
    strategy: ContextStrategy = REGISTRY.create("context", CONTEXTS[context])
    return strategy


class Vowels(RewardFn):
    """The share of vowels in an action."""

    name, scope = "vowels", "turn"

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float:
        return _vowels(turn.text)


class Spoken(RewardFn):
    """The share of vowels in everything that the policy wrote."""

    name = "spoken"

    def score(self, trajectory: Trajectory) -> float:
        return _vowels("".join(turn.text for turn in trajectory.turns))


def noise(context: str, folder: Path, **settings: Any) -> tuple[RolloutResult, Recorder]:
    """A rollout of the random model in `folder` under a strategy: two tasks, three episodes each."""
    recorder = Recorder(TransformersEngine())
    asyncio.run(recorder.start(EngineModel(str(folder), "float32", deterministic=True)))
    given: dict[str, Any] = {"deterministic": True, "sampling": Sampling(max_new_tokens=12)} | settings
    stage = Stage(recorder, env=ENV, rewards=[Vowels(), Spoken()], context=make(context), **given)
    return stage.play(questions(2), 3), recorder


def _vowels(text: str) -> float:
    return sum(letter in "aeiou" for letter in text.lower()) / max(1, len(text))
