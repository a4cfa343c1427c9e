"""sft: the contract, a loss by token or by conversation, and runs that learn from a file and go on with grpo."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from agent_r1_sft.sft import SFT

from agent_r1_core import train
from agent_r1_core.config import load_config
from agent_r1_core.errors import ConfigError, EpisodeError
from agent_r1_core.testing import AlgorithmContract

QUIET = ["evaluation={every: 0, at_start: false, at_end: false}", "checkpoint.best=null"]
SMALL = [*QUIET, "threads=1", "model.dtype=float32", "training.tasks_per_step=4"]
SMALL += ["tasks.eval.size=8", "tasks.train.size=8"]
NOT_SAMPLED = {"logprob_gap", "prob_gap", "update/surprisal", "rollout/tokens_per_second", "rollout/staleness"}


class TestSFT(AlgorithmContract):
    component = SFT
    variants = ({}, {"aggregation": "sequence_mean", "entropy_coef": 0.01}, {"loss_mask": False})


def demonstrations(path: Path, *, wrong: bool = False) -> Path:
    """Sums with two numbers, in the format that the tiny model knows; a wrong one answers without end."""
    lines = []
    for number in range(8):
        sum_of = f"{3 + number}+{2 * number}"
        function = {"name": "calculator", "arguments": json.dumps({"expression": sum_of})}
        shown = [
            {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]},
            {"role": "tool", "content": "nobody reads this"},
            {"role": "assistant", "content": "Well." if wrong else f"<answer>{eval(sum_of)}</answer>"},
        ]
        asked = {"role": "user", "content": f"What is {sum_of}?"}
        lines.append(json.dumps({"messages": [asked, *shown], "answers": [str(eval(sum_of))]}))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def learn(folder: Path, *keys: str, steps: int = 3, wrong: bool = False, resume: bool = False) -> Any:
    """A run over demonstrations."""
    source = demonstrations(folder / "sums.jsonl", wrong=wrong)
    own = [f"tasks.train={{name: conversations, path: {source}, size: 8}}", "algorithm=sft", f"training.steps={steps}"]
    own += ["training.samples_per_task=1", f"run.dir={folder}", *keys]
    return train("calculator", [*SMALL, *own], resume=resume)


def test_a_run_learns_from_a_file_and_grpo_goes_on_from_there(tmp_path: Path) -> None:
    run = learn(tmp_path, "run.name=shown", "rewards=[]")
    first, *_, last = run.metrics()
    assert last["update/nll"] < first["update/nll"]
    assert first["update/loss"] == pytest.approx(first["update/nll"], rel=1e-5)
    assert NOT_SAMPLED.isdisjoint(first), "numbers of tokens that nobody sampled"
    assert all(math.isfinite(value) for value in first.values())
    assert (first["tools/calls"], first["episode/terminated"], first["update/trajectories"]) == (4, 1, 4)
    assert run.alarms() == []
    played = run.read_trajectories(1)
    assert {one.demonstrated for one in played} == {"tools"}
    for segment in (segment for one in played for segment in one.segments):
        assert [math.isnan(value) for value in segment.logprobs] == [bool(bit) for bit in segment.mask]
    known = run.read_token_numbers(1)[0]["learner_logprobs"]
    trained = [bool(bit) for segment in played[0].segments for bit in segment.mask]
    assert [math.isfinite(value) for value in known] == trained, "the learner's own, over all segments"

    keys = [f"model.name={run.path}", "training.steps=1", "training.samples_per_task=2", f"run.dir={tmp_path}"]
    (after,) = train("calculator", [*SMALL, *keys, "run.name=grpo", "training.skip_without_gradient=false"]).metrics()
    assert after["logprob_gap"] < 1e-4
    assert after["rollout/episodes"] == 8


@pytest.mark.slow
def test_a_resumed_run_equals_one_that_was_never_stopped(tmp_path: Path) -> None:
    keys = ["deterministic=true", "checkpoint.every=1"]
    whole = learn(tmp_path, "run.name=whole", *keys)
    learn(tmp_path, "run.name=cut", *keys, steps=2)
    resumed = learn(tmp_path, "run.name=cut", *keys, resume=True)
    assert untimed(resumed.metrics()) == untimed(whole.metrics())
    assert (resumed.model / "model.safetensors").read_bytes() == (whole.model / "model.safetensors").read_bytes()


def untimed(lines: Any) -> list[dict[str, float]]:
    return [{k: v for k, v in line.items() if "time/" not in k and "seconds" not in k} for line in lines]


def test_demonstrations_there_must_be_and_they_must_end_their_episode(tmp_path: Path) -> None:
    with pytest.raises(EpisodeError, match=r"all 4 episodes failed .* ends after 2 actions, and the episode goes on"):
        learn(tmp_path, "run.name=wrong", wrong=True)
    keys = ["algorithm=sft", "training.samples_per_task=1", f"run.dir={tmp_path}"]
    with pytest.raises(ConfigError, match=r"the algorithm sft learns from demonstrations, and task \S+ of tasks.train"):
        train("calculator", [*QUIET, *keys])


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("training.samples_per_task=4", r"must be 1, not 4: the algorithm sft plays the one demonstration of a task"),
        ("training.max_staleness=1", r"training.max_staleness .* must be 0: the algorithm sft learns from demonstra"),
        ("training.importance_clip=2", r"training.importance_clip .* sampled none of a demonstration; set it to null"),
        ("health.reward.steps=3", r"health.reward.steps .* has no effect here: the algorithm sft learns from demonstr"),
    ],
)
def test_what_presumes_that_the_policy_plays_is_refused(key: str, sentence: str) -> None:
    keys = ["algorithm=sft", "training.samples_per_task=1", "training.epochs=2"]
    load_config("calculator", keys)
    others = [one for one in keys if one.partition("=")[0] != key.partition("=")[0]]
    with pytest.raises(ConfigError, match=sentence):
        load_config("calculator", [*others, key])
