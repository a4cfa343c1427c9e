"""What a recipe says is what a run does: settings are read at their far end, from what was sampled, scored, evaluated
and kept. What they do inside an update is compared with formulas in tests/yardstick."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from agent_r1_core import Run, train
from agent_r1_core.testing import tiny_model_folder

WITNESS = '''
"""An environment that pays, rewards that vary, and an engine; engine and outcome write down what they see."""
import json
import os
from dataclasses import replace

from agent_r1_core import EngineSpec, EnvSpec, RewardFn, RewardSpec, hookimpl
from agent_r1_tool_calling.env import ToolCalling
from agent_r1_transformers.engine import TransformersEngine

AGENT_R1_PLUGIN_API = 1


def note(**what):
    with open(os.environ["WITNESS"], "a") as file:
        print(json.dumps(what), file=file)


class Engine(TransformersEngine):
    async def generate_batch(self, requests):
        for request in requests:
            note(temperature=request.sampling.temperature, new_tokens=request.sampling.max_new_tokens)
        return await super().generate_batch(requests)


class Paying(ToolCalling):
    async def step(self, action):
        return replace(await super().step(action), reward=0.25)


class Vowels(RewardFn):
    """Share of vowels; it breaks on one task."""

    def score(self, trajectory):
        note(task=trajectory.task.id, attempt=trajectory.attempts)
        if trajectory.task.prompt == os.environ.get("BROKEN"):
            raise OSError("no dictionary of vowels")
        text = "".join(turn.text for turn in trajectory.turns).lower()
        return sum(letter in "aeiou" for letter in text) / max(1, len(text))


class Brief(RewardFn):
    def score(self, trajectory):
        return 1 / len(trajectory.turns)


class Digits(RewardFn):
    scope, counts = "turn", str.isdigit

    def score_turn(self, turn, trajectory):
        return sum(type(self).counts(letter) for letter in turn.text) / max(1, len(turn.text))


class Ascii(Digits):
    counts = str.isascii


@hookimpl
def register_engines():
    return [EngineSpec("watched", ":Engine", "the embedded engine")]


@hookimpl
def register_envs():
    return [EnvSpec("paying", ":Paying", "a quarter for every turn")]


@hookimpl
def register_rewards():
    return [RewardSpec(name.lower(), f":{name}", "share of letters") for name in ("Vowels", "Brief", "Digits", "Ascii")]
'''
COMMON = {
    "threads": 1,
    "model.dtype": "float32",
    "tools": "[calculator]",
    "env": "{name: paying, max_turns: 2, max_tokens: 230, system_prompt: ''}",
    "rewards": "[{name: brief}, {name: digits, weight: -0.5}, {name: ascii, weight: 0.125}, {name: vowels, weight: 3}]",
    "engine": "{name: watched, temperature: 0.7, max_new_tokens: 5}",
}


@dataclass
class Watched:
    """A run, and what its witness wrote down."""

    run: Run
    lines: list[dict[str, Any]]

    @property
    def played(self) -> list[str]:
        """The tasks of all episodes that were scored, evaluations included, in the order of their end."""
        return [line["task"] for line in self.lines if "task" in line]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if "temperature" in line]


def watch(folder: Path, **changed: Any) -> Watched:
    """Train with the common settings and others; `__` in a key is a dot."""
    (folder / "witness.py").write_text(WITNESS)
    model = tiny_model_folder(folder / "model")
    keys = COMMON | {"model.name": model, "run.dir": folder} | {k.replace("__", "."): v for k, v in changed.items()}
    notes = folder / "notes.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WITNESS", str(notes))
        run = train("default", [f"{key}={value}" for key, value in keys.items()], plugins=[folder / "witness.py"])
    return Watched(run, [json.loads(line) for line in notes.read_text().splitlines()])


@pytest.fixture(scope="module")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Four steps of three tasks in their order; two of 29 tasks are held out."""
    return watch(
        tmp_path_factory.mktemp("held-out"),
        tasks="{train: {name: arithmetic, size: 29}, eval: null}",
        training="{steps: 4, tasks_per_step: 3, samples_per_task: 2, shuffle: false, epochs: 2, minibatches: 3, "
        "lr: 0.001, warmup_steps: 2, schedule: linear}",
        evaluation="{every: 2, size: 2, greedy: true}",
        checkpoint="{every: 1, keep: 9, best: null}",
    )


@pytest.fixture(scope="module")
def separate(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Five steps of all four tasks in random order, with an evaluation set of its own and one optimiser step each."""
    return watch(
        tmp_path_factory.mktemp("separate"),
        tasks="{train: {name: arithmetic, size: 4}, eval: {name: arithmetic, split: eval, size: 6}}",
        training="{steps: 5, tasks_per_step: 4, samples_per_task: 2, lr: 0.003, schedule: cosine}",
        evaluation="{every: 3, size: 5, greedy: false, at_start: false, at_end: false}",
        checkpoint="{every: 1, keep: 1, best: eval/reward/vowels}",
    )


def tasks_of(run: Run, step: int) -> list[str]:
    return [trajectory.task.id for trajectory in run.read_trajectories(step)]


def weights(folder: Path) -> torch.Tensor:
    return torch.cat([value.double().flatten() for _, value in sorted(load_file(folder / "model.safetensors").items())])


def test_steps_play_so_many_tasks_so_often_in_the_order_asked_for_and_never_one_that_is_held_out(
    held_out: Watched, separate: Watched
) -> None:
    """The log holds the evaluation before the first step, two steps, an evaluation, two more steps and the last one."""
    evaluations = [held_out.played[start : start + 2] for start in (0, 2 + 12, 2 + 12 + 2 + 12)]
    assert len(held_out.played) == 3 * 2 + 4 * 6
    trained = {task for step in range(1, 5) for task in tasks_of(held_out.run, step)}
    assert len(trained) == 4 * 3
    assert all(sorted(evaluation) == sorted(evaluations[0]) for evaluation in evaluations)
    assert len(set(evaluations[0])) == 2
    assert not trained & set(evaluations[0])
    steps = [Counter(tasks_of(held_out.run, step)) for step in range(1, 5)]
    assert all(len(step) == 3 and set(step.values()) == {2} for step in steps)
    orders = [tasks_of(separate.run, step)[::2] for step in range(1, 6)]
    assert len({tuple(order) for order in orders}) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_evaluations_come_when_they_are_asked_for_are_as_large_and_greedy_or_sampled(
    held_out: Watched, separate: Watched
) -> None:
    """Training is sampled."""
    assert [result["n"] for result in held_out.run.evaluations().values()] == [2, 2, 2]
    assert [result["n"] for result in separate.run.evaluations().values()] == [5]
    for watched, steps in ((held_out, [2, 4]), (separate, [3])):
        assert [line["step"] for line in watched.run.metrics() if "eval/n" in line] == steps
        assert max(line["logprob_gap"] for line in watched.run.metrics()) < 1e-4  # the learner's temperature, too
    temperatures = [request["temperature"] for request in held_out.requests]
    assert set(temperatures) == {0.0, 0.7}
    assert temperatures[0] == temperatures[-1] == 0.0
    assert {request["temperature"] for request in separate.requests} == {0.7}


def test_episodes_keep_to_their_budgets_and_rewards_meet_with_their_weights(held_out: Watched) -> None:
    """Two process rewards and the environment's own in one turn, two outcomes; records are unweighted."""
    trajectories = [one for step in range(1, 5) for one in held_out.run.read_trajectories(step)]
    tokens = [turn.tokens for trajectory in trajectories for turn in trajectory.turns]
    assert max(tokens) == 5 == max(request["new_tokens"] for request in held_out.requests)
    assert {len(t.turns) for t in trajectories if t.reason == "max_turns"} == {2}
    assert any(trajectory.rewards["vowels"] for trajectory in trajectories)
    for trajectory in trajectories:
        for turn in trajectory.turns:
            assert set(turn.rewards) == {"env", "digits", "ascii"}
            expected = turn.rewards["env"] - 0.5 * turn.rewards["digits"] + 0.125 * turn.rewards["ascii"]
            assert turn.rewards["env"] == 0.25
            assert turn.reward == pytest.approx(expected)
            letters = turn.text or "."
            assert turn.rewards["ascii"] == pytest.approx(sum(one.isascii() for one in letters) / len(letters))
        assert trajectory.reward == pytest.approx(3 * trajectory.rewards["vowels"] + trajectory.rewards["brief"])
    returns = [trajectory.total_reward for trajectory in held_out.run.read_trajectories(1)]
    assert held_out.run.metrics()[0]["reward/mean"] == pytest.approx(sum(returns) / len(returns))


def test_every_step_has_its_learning_rate_and_so_many_checkpoints_are_kept_and_the_best(
    held_out: Watched, separate: Watched
) -> None:
    assert [line["update/steps"] for line in held_out.run.metrics()] == [6.0] * 4
    assert [line["update/lr"] for line in held_out.run.metrics()] == pytest.approx([0.5e-3, 1e-3, 1e-3, 0.5e-3])
    cosine = [3e-3 * factor for factor in (1.0, 0.904508, 0.654508, 0.345492, 0.095492)]
    assert [line["update/lr"] for line in separate.run.metrics()] == pytest.approx(cosine, rel=1e-4)
    kept = [[one.step for one in watched.run.checkpoints.all()] for watched in (held_out, separate)]
    assert kept == [[1, 2, 3, 4], [3, 5]], "the third step alone was evaluated"
    assert torch.equal(weights(separate.run.model), weights(separate.run.path / "checkpoints" / "step_000005/policy"))


@pytest.mark.parametrize("retries", [0, 2])
def test_an_episode_that_fails_is_started_again_so_often(
    retries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_out: Watched
) -> None:
    first, *_ = held_out.run.read_trajectories(1)
    monkeypatch.setenv("BROKEN", str(first.task.prompt))
    watched = watch(
        tmp_path,
        tasks="{train: {name: arithmetic, size: 3}, eval: {name: arithmetic, split: eval, size: 1}}",
        training=f"{{steps: 1, samples_per_task: 2, max_retries: {retries}}}",
        evaluation="{every: 0, at_start: false}",
    )
    attempts = [line["attempt"] for line in watched.lines if line.get("task") == first.task.id]
    assert sorted(attempts) == sorted(list(range(1, retries + 2)) * 2)
    assert first.task.id not in tasks_of(watched.run, 1)
    assert list(watched.run.evaluations()) == ["step_000001"]
