"""A run with examples before its tasks: what it records and states, and that it goes on with the same ones alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_run import fingerprint, run_once

from agent_r1_core import Run
from agent_r1_core.config import load_config
from agent_r1_core.errors import RunError
from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.evaluation.listener import Silence
from agent_r1_core.training.api import evaluate


def conversation(asked: str, called: str, told: str) -> str:
    call = {"function": {"name": "calculator", "arguments": {"expression": called}}}
    messages = [
        {"role": "system", "content": "not the environment's"},
        {"role": "user", "content": asked},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": told},
        {"role": "assistant", "content": f"<answer>{told}</answer>"},
    ]
    return json.dumps({"messages": messages}) + "\n"


@pytest.fixture(scope="module")
def folder(folder: Path) -> Path:
    (folder / "shown.jsonl").write_text(conversation("1 + 1?", "1+1", "2") + conversation("2 + 2?", "2+2", "4"))
    return folder


ENV = "{name: tool_calling, max_turns: 2, max_tokens: 700, system_prompt: '', examples: %s, max_examples: 1}"


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return run_once(folder, "whole", 2, env=ENV % (folder / "shown.jsonl"))


def test_a_run_says_that_there_were_examples_and_how_many(folder: Path, run: Run) -> None:
    said = f"examples before every task: 1 of the 2 conversations in {folder / 'shown.jsonl'} (SHA-256 "
    for result in run.evaluations().values():
        assert result["conditions"][0].startswith(said)
        assert result["sampling"]["examples"] == run.examples()
    assert {one.examples for one in run.read_trajectories(1)} == {1}
    for line in run.metrics():
        assert line["logprob_gap"] < 1e-4
    (one, *_) = run.read_trajectories(2)
    assert not any("1 + 1?" in message["content"] for message in one.messages())


def test_a_resumed_run_goes_on_with_the_same_examples_alone(folder: Path, run: Run) -> None:
    shown, env = folder / "shown.jsonl", ENV % (folder / "shown.jsonl")
    run_once(folder, "halves", 1, env=env)
    before = shown.read_text()
    shown.write_text(conversation("1 + 1?", "1+2", "3") + conversation("2 + 2?", "2+2", "4"))
    with pytest.raises(RunError, match=r"shown\.jsonl \(env\.examples\) holds other conversations than when run"):
        run_once(folder, "halves", 2, resume=True, env=env)
    shown.write_text(before)
    found, expected = fingerprint(run_once(folder, "halves", 2, resume=True, env=env)), fingerprint(run)
    assert found["trajectories"] == expected["trajectories"]


@pytest.mark.parametrize(("baseline", "shown"), [("closed_book", False), ("base_tool_call", True)])
def test_a_baseline_without_tools_has_no_examples(folder: Path, baseline: str, shown: bool) -> None:
    given = {"model.name": folder / "model", "env.examples": folder / "shown.jsonl", "run.dir": folder / "evaluated"}
    given |= {"evaluation.size": 2, "engine.max_new_tokens": 4}
    resolved = load_config("calculator", [f"{key}={value}" for key, value in given.items()], training=False)
    evaluation, _ = evaluate(EvaluationPlan(resolved, baseline=baseline), Silence())  # type: ignore[arg-type]
    assert {one.examples for one in evaluation.sets[""]} == {2 * shown}
    assert any("examples before" in sentence for sentence in evaluation.result.conditions) == shown
