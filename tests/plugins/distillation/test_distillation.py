"""On-policy distillation: the contract, teachers that are refused, and that the one that is named teaches."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from agent_r1_distillation.distillation import Distillation

from agent_r1_core import train
from agent_r1_core.assembly.model_source import BUNDLED
from agent_r1_core.errors import ConfigError
from agent_r1_core.learning.policy import Policy
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import AlgorithmContract, tiny_batch

KEYS = ["threads=1", "tasks.eval.size=8", "checkpoint.best=null", "training.samples_per_task=1"]
KEYS += ["evaluation={every: 0, at_start: false, at_end: false}", "training.tasks_per_step=16"]


class TestDistillation(AlgorithmContract):
    component = Distillation
    variants = (
        {"teacher": "tiny"},
        {"teacher": "tiny", "aggregation": "sequence_mean", "entropy_coef": 0.01},
        {"hint": "The answer is {answers}.", "gate": 5.0, "reward_coef": 1.0},
    )


def learn(folder: Path, *keys: str, steps: int) -> Run:
    return train("calculator", [*KEYS, f"training.steps={steps}", f"run.dir={folder / 'runs'}", *keys])


@pytest.mark.parametrize(
    ("teacher", "sentence"),
    [("null", "name a model in algorithm.teacher"), ("tiny-worlds", "tiny-worlds reads other ids than the policy")],
)
def test_a_teacher_there_must_be_and_it_must_read_the_policys_ids(tmp_path: Path, teacher: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        learn(tmp_path, f"algorithm={{name: distillation, teacher: {teacher}}}", steps=1)


@pytest.mark.slow
@pytest.mark.parametrize("adapters", ["null", "{rank: 8}"])
def test_the_teacher_is_the_model_that_was_named(tmp_path: Path, adapters: str) -> None:
    """Also where adapters have a reference below them: the bundled model agrees with itself, and not with noise."""
    other, generator = Policy.load(BUNDLED / "tiny"), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(weight.std() * torch.randn(weight.shape, generator=generator))
    folder = shutil.copytree(BUNDLED / "tiny", tmp_path / "other", copy_function=shutil.copyfile)
    other.save(folder)
    apart = []
    for teacher in (BUNDLED / "tiny", folder):
        block = f"algorithm={{name: distillation, teacher: {teacher}}}"
        (line,) = learn(tmp_path, block, f"model.lora={adapters}", f"run.name={teacher.name}", steps=1).metrics()
        apart.append(line["update/kl_teacher"])
    assert abs(apart[0]) < 1e-4
    assert apart[1] > 0.1


def test_a_run_that_teaches_is_the_policy_that_it_had_when_training_began(tmp_path: Path, monkeypatch: Any) -> None:
    """By a path that is found from any folder."""
    monkeypatch.chdir(tmp_path)
    with Run.create(tmp_path, "teacher", {}, []) as teacher:
        teacher.checkpoints.save(1, lambda folder: shutil.copytree(BUNDLED / "tiny", folder / "policy"))
    run = learn(tmp_path, "algorithm={name: distillation, teacher: teacher}", steps=1)
    assert Path(run.config()["algorithm"]["teacher"]) == teacher.checkpoints.at(1).policy


@pytest.mark.parametrize(("hint", "share"), [("The answer is {answers}.", 1.0), ("The answer is {nowhere}.", 0.0)])
def test_the_policy_is_its_own_teacher_where_there_is_a_hint(tmp_path: Path, hint: str, share: float) -> None:
    (line,) = learn(tmp_path, f"algorithm={{name: distillation, hint: '{hint}'}}", steps=1).metrics()
    assert line["update/hinted"] == share
    assert (abs(line["update/kl_teacher"]) > 1e-3) is bool(share), "without a hint it agrees with itself"


def test_a_hint_that_no_task_has_is_told() -> None:
    (text,) = Distillation(Distillation.Config(hint="See {nowhere}.")).advantages(tiny_batch()).warnings
    assert "no task of this step has what algorithm.hint names" in text
