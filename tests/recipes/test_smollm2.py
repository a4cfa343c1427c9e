"""Recipes of the real model, shortened: it is shown demonstrations, and goes on from them by its own episodes."""

from __future__ import annotations

import importlib
import os
import subprocess
from pathlib import Path

import pytest

from agent_r1_core.assembly.model_source import find_model
from agent_r1_core.errors import ModelError
from agent_r1_core.runs.run import Run

SHORT = ("training.steps=1", "evaluation={every: 0, at_start: false, at_end: false}", "checkpoint.every=100")
SHOWN = ("training.tasks_per_step=2",)
PLAYED = ("training.tasks_per_step=1", "training.samples_per_task=3", "env.max_turns=2")


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    """The model, in the cache that outlives the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "scripts"))
        patch.delenv("AGENT_R1_CACHE")
        try:
            return find_model(str(importlib.import_module("smollm2").bring())).folder
        except ModelError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["search", "frozen_lake"])
def test_a_real_model_learns_from_demonstrations_and_from_its_own_episodes(
    warm: Path, folder: Path, task: str, tmp_path: Path
) -> None:
    """In programs of their own, since a process keeps the memory that a model of this size has used."""

    def train(recipe: str, model: Path, name: str, *overrides: str) -> dict[str, float]:
        place = (f"model.name={model}", f"run.dir={tmp_path}", f"run.name={name}")
        program = [
            warm,
            "-c",
            "from agent_r1_cli.main import main; main()",
            "train",
            recipe,
            *SHORT,
            *place,
            *overrides,
        ]
        done = subprocess.run(program, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return Run.open(tmp_path / name).metrics()[-1]

    shown = train(f"smollm2/{task}-shown", folder, "shown", *SHOWN)
    assert shown["reward/mean"] == 1, "what is shown is right"
    assert shown["update/grad_norm"] > 0
    assert shown["update/nll"] < 4, "the model knows the language of what it is shown"
    played = train(f"smollm2-{task}", tmp_path / "shown", "played", *PLAYED)
    assert played["rollout/failed"] == 0
    assert played.get("logprob_gap", 0.0) < 1e-4, "a group without spread is no update, and measures none"
