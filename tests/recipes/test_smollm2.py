"""The recipes of the real model, shortened: it is shown demonstrations, and goes on from them by its own episodes."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from agent_r1_core.errors import ModelError
from agent_r1_core.runs.run import Run
from agent_r1_core.training.model_source import find_model

SHORT = ["training.steps=1", "evaluation={every: 0, at_start: false, at_end: false}", "checkpoint.every=100"]
SHOWN = [*SHORT, "training.tasks_per_step=2"]
"""Of the demonstrations."""
PLAYED = [*SHORT, "training.tasks_per_step=1", "training.samples_per_task=3", "env.max_turns=2"]


@pytest.fixture(scope="module")
def script(root: Path) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "scripts"))
        yield importlib.import_module("smollm2")


@pytest.fixture(scope="module")
def folder(script: ModuleType) -> Path:
    """The model, in the cache that outlives the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AGENT_R1_CACHE")
        try:
            return find_model(str(script.bring())).folder
        except ModelError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["calculator", "chain", "search", "frozen_lake"])
def test_a_real_model_learns_from_demonstrations_and_from_its_own_episodes(
    script: ModuleType, folder: Path, task: str, tmp_path: Path
) -> None:
    place = f"run.dir={tmp_path}"
    run = script.teach(task, folder, [*PLAYED, place], [*SHOWN, place])
    first, then = Run.open(tmp_path / f"{task}-shown-1").metrics()[-1], run.metrics()[-1]
    assert first["reward/mean"] == 1, "what is shown is right"
    assert first["update/grad_norm"] > 0
    assert first["update/nll"] < 4, "the model knows the language of what it is shown"
    assert then["logprob_gap"] < 1e-4
    assert then["rollout/failed"] == 0
