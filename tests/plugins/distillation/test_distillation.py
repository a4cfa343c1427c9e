"""On-policy distillation: the contract, teachers that are refused, a policy that comes to agree with its teacher."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from agent_r1_distillation.distillation import Distillation

from agent_r1_core import train
from agent_r1_core.assembly.model_source import BUNDLED
from agent_r1_core.errors import ConfigError
from agent_r1_core.learning.policy import Policy
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import AlgorithmContract

KEYS = ["threads=1", "tasks.eval.size=8", "checkpoint.best=null", "training.samples_per_task=1"]
KEYS += ["evaluation={every: 0, at_start: false, at_end: false}", "training.tasks_per_step=16"]


class TestDistillation(AlgorithmContract):
    component = Distillation
    variants = ({"teacher": "tiny"}, {"teacher": "tiny", "aggregation": "sequence_mean", "entropy_coef": 0.01})


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
def test_a_policy_comes_to_agree_with_its_teacher(tmp_path: Path, adapters: str) -> None:
    """The student is the bundled model with noise on its weights, and the teacher the model without."""
    spoilt, generator = Policy.load(BUNDLED / "tiny"), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in spoilt.parameters():
            weight.add_(0.15 * weight.std() * torch.randn(weight.shape, generator=generator))
    student = tmp_path / "student"
    student.mkdir()
    for file in (BUNDLED / "tiny").iterdir():
        (student / file.name).write_bytes(file.read_bytes())
    spoilt.save(student)
    keys = [f"model.name={student}", f"model.lora={adapters}", "training.lr=1e-3"]
    run = learn(tmp_path, *keys, "algorithm={name: distillation, teacher: tiny}", steps=6)
    apart = [line["update/kl_teacher"] for line in run.metrics()]
    assert apart[0] > 0.01
    assert apart[-1] < 0.5 * apart[0]
