"""What the roles of a run are made from."""

from __future__ import annotations

from pathlib import Path

from agent_r1_core.assembly.blueprint import Blueprint
from agent_r1_core.assembly.hardware import Hardware
from agent_r1_core.assembly.model_source import ModelSource
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.config import load_config
from agent_r1_core.runs.checkpoint import Checkpoint
from agent_r1_core.testing import tiny_tokenizer


def test_an_engine_that_starts_when_its_checkpoint_has_been_pruned_starts_from_the_model(tmp_path: Path) -> None:
    """A rollout worker that takes another one's place; the learner would not start from other weights than its own."""
    policy, model = tmp_path / "checkpoint" / "policy", tmp_path / "model"
    policy.mkdir(parents=True)
    blueprint = Blueprint(
        load_config("default", []),
        Hardware("cpu", "float32", 1),
        ModelSource(model, "folder"),
        ChatTokenizer(tiny_tokenizer(), name="tiny"),
        ("train",),
        checkpoint=Checkpoint(policy.parent, 2, None, None, 1),
    )
    assert blueprint.engine_model().folder == str(policy)
    policy.rmdir()
    assert blueprint.engine_model().folder == str(model)
    assert blueprint.policy_folder == policy
