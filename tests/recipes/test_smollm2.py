"""Recipes of the real model, shortened: it is shown demonstrations, and goes on from them by its own episodes."""

from __future__ import annotations

import importlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_core.assembly.model_source import find_model
from agent_r1_core.errors import ModelError
from agent_r1_core.runs.run import Run

SHORT = ("training.steps=1", "evaluation={every: 0, at_start: false, at_end: false}", "checkpoint.every=100")
Train = Callable[..., dict[str, float]]
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


@pytest.fixture
def train(warm: Path, tmp_path: Path) -> Train:
    """Trains in a program of its own, since a process keeps the memory that a model of this size has used."""

    def train(recipe: str, name: str, *overrides: str) -> dict[str, float]:
        place = (f"run.dir={tmp_path}", f"run.name={name}")
        command = "from agent_r1_cli.main import main; main()"
        program = [warm, "-c", command, "train", recipe, *SHORT, *place, *overrides]
        done = subprocess.run(program, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return Run.open(tmp_path / name).metrics()[-1]

    return train


@pytest.mark.slow
@pytest.mark.parametrize("task", ["search", "frozen_lake"])
def test_a_real_model_learns_from_demonstrations_and_from_its_own_episodes(
    train: Train, folder: Path, task: str, tmp_path: Path
) -> None:
    shown = train(f"smollm2/{task}-shown", "shown", f"model.name={folder}", *SHOWN)
    assert shown["reward/mean"] == 1, "what is shown is right"
    assert shown["update/grad_norm"] > 0
    assert shown["update/nll"] < 4, "the model knows the language of what it is shown"
    played = train(f"smollm2-{task}", "played", f"model.name={tmp_path / 'shown'}", *PLAYED)
    assert played["rollout/failed"] == 0
    assert played.get("logprob_gap", 0.0) < 1e-4, "a group without spread is no update, and measures none"


@pytest.mark.slow
def test_a_real_model_judges_the_bundled_one(train: Train, folder: Path) -> None:
    """That its verdicts can be read, not that they are good ones."""
    judge = f"rewards=[{{name: judge, frozen: {folder}, prefill: true, timeout: 120}}]"
    played = train("judge", "judged", judge, "training.tasks_per_step=2", "training.samples_per_task=3")
    assert played["reward/judge/prompt_tokens"] > 0
    assert played["reward/judge/completion_tokens"] <= 4
    assert played["rollout/failed"] == 0
