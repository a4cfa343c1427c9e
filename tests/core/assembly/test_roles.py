"""The trainer knows rollouts and a learner: neither blocks its event loop, and weights are asked for by version."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agent_r1_core.assembly.blueprint import Blueprint
from agent_r1_core.assembly.hardware import Hardware
from agent_r1_core.assembly.local_roles import LocalLearner, LocalRollouts
from agent_r1_core.assembly.model_source import ModelSource
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.config import load_config
from agent_r1_core.contracts.engine import EngineModel
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.errors import EngineError
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.update import UpdateStopped
from agent_r1_core.plugins import Registry
from agent_r1_core.rollout import RolloutRequest, RolloutResult
from agent_r1_core.runs.checkpoint import Checkpoint
from agent_r1_core.testing import ScriptedPolicy, random_group, tiny_model, tiny_tokenizer


class Waiting:
    """A learner whose update takes until somebody lets it go, or stops it."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def update(self, groups: Any, step: int, stopped: Callable[[], bool]) -> str:
        self.begun.set()
        while not self.go_on.wait(0.01):
            if stopped():
                raise UpdateStopped("stopped")
        return f"update of step {step}"


async def test_a_cancelled_update_stops_between_micro_batches_before_anybody_goes_on():
    learner = Waiting()
    local = LocalLearner(learner)
    update = asyncio.create_task(local.update([], 1))
    while not learner.begun.is_set():
        await asyncio.sleep(0)
    update.cancel()
    with pytest.raises(asyncio.CancelledError):
        await update
    learner.go_on.set()
    assert await local.update([], 2) == "update of step 2"

    algorithm = Registry.discover().create("algorithm", "grpo")
    learner = Learner(Policy(tiny_model()), algorithm, TrainingConfig(max_tokens_per_microbatch=8))
    asked: list[bool] = []

    def stopped() -> bool:
        asked.append(len(asked) == 2)
        return asked[-1]

    with pytest.raises(UpdateStopped, match="step 4"):
        learner.update([random_group(seed) for seed in range(3)], 4, stopped)
    assert asked == [False, False, True]


async def test_rollouts_refuse_to_play_under_other_weights_than_they_are_asked_for():
    class Nobody:
        async def collect(self, request: RolloutRequest, on_episode: Any) -> RolloutResult:
            return RolloutResult()

    stage = SimpleNamespace(collector=Nobody())
    rollouts = LocalRollouts(ScriptedPolicy(["hello"]), {"train": stage}, EngineModel("", "float32"))
    await rollouts.load_weights({}, 7)
    await rollouts.collect(RolloutRequest([], version=7))
    await rollouts.collect(RolloutRequest([]))
    with pytest.raises(EngineError, match="version 8, but the engine serves 7"):
        await rollouts.collect(RolloutRequest([], version=8))


def test_an_engine_that_starts_when_its_checkpoint_has_been_pruned_starts_from_the_model(tmp_path):
    """A rollout worker that takes another one's place; the learner would not start from other weights than its own."""
    policy, model = tmp_path / "checkpoint" / "policy", tmp_path / "model"
    policy.mkdir(parents=True)
    given = (load_config("default", []), Hardware("cpu", "float32", 1), ModelSource(model, "folder"))
    saved = Checkpoint(policy.parent, 2, None, None, 1)
    blueprint = Blueprint(*given, ChatTokenizer(tiny_tokenizer(), name="tiny"), ("train",), checkpoint=saved)
    assert blueprint.engine_model().folder == str(policy)
    policy.rmdir()
    assert blueprint.engine_model().folder == str(model)
    assert blueprint.policy_folder == policy
