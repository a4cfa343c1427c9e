"""A recorded step repeats bit for bit; what was edited, or is of another seed, is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_r1_replay.opened import OpenedRun
from agent_r1_replay.repeating import Repetition, repeat
from agent_r1_replay.sampling import sampled_again
from small_run import Notes, rewritten, run_once

from agent_r1_core.errors import AgentR1Error
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import write_trajectories

Open = Callable[..., OpenedRun]
SETS = "{few: {name: arithmetic, terms: 3, size: 3}, more: {name: arithmetic, size: 9, weight: 2}}"
RUNS: dict[str, dict[str, Any]] = {
    "ppo": {"algorithm": "ppo", "training__critic_warmup": 1},
    "remax": {"algorithm": "remax"},
    "window": rewritten("window"),
    "summary": rewritten("summary"),
    "process": {"tools": "[{name: calculator, isolation: process}]"},
    "mixed": {"algorithm": "dapo", "rewards": "[early]", "tasks__train": SETS, "training__curriculum": "{rate: 0.5}"},
    "hint": {"algorithm": "{name: sdar, teacher_coef: 1, hint: '{answers}!'}"},
    "thoughts": {"rewards": "[vowels, {name: thought_effect, weight: 0.1}]"},
    "learner": {"training__old_logprobs": "learner", "training__schedule": "linear", "algorithm": "gspo"},
}
"""Beside GRPO: what a learner keeps between steps, how contexts are cut, where tools run, how tasks are drawn."""


def repeated(opened: OpenedRun, *steps: int, play: bool = True, sample: int | None = None) -> list[Repetition]:
    return list(repeat(opened, steps or [opened.step], play, sample, Notes()))


@pytest.fixture
def copied(run: Run, tmp_path: Path) -> Run:
    """A copy to be changed."""
    shutil.copytree(run.path, tmp_path / "copy")
    return Run.open(tmp_path / "copy")


def rewrite(run: Run, step: int, change: Callable[[Any], None]) -> None:
    """Change the first trajectory of a step's file, whose numbers are lost."""
    trajectories = run.read_trajectories(step)
    change(trajectories[0])
    write_trajectories(run.trajectory_file(step), step, trajectories)


def test_a_step_repeats_bit_for_bit_and_the_learner_trains_from_the_records_alone(run: Run, opened: Open) -> None:
    (first,) = repeated(opened(run.path, 1))
    assert first == Repetition(1, played=6, episodes={}, update=[], weights="checkpoints/step_000001/policy")
    (one,) = repeated(opened(run.path, 2), sample=4)
    assert one == Repetition(2, played=1)
    steps = repeated(opened(run.path, 1), 1, 2, play=False)
    assert all(step.equal and step.played is None for step in steps)
    assert [step.weights for step in steps] == [f"checkpoints/step_00000{step}/policy" for step in (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(RUNS))
def test_a_step_of_any_run_repeats_bit_for_bit(folder: Path, kept: dict[str, Any], opened: Open, name: str) -> None:
    path = run_once(folder, name, 2, **{**RUNS[name], **kept}).path
    (found,) = repeated(opened(path, 2))
    assert found.equal, found
    assert found.played
    assert found.weights


def test_an_edited_record_is_found(copied: Run, opened: Open) -> None:
    def edit(trajectory: Any) -> None:
        trajectory.reward += 0.5
        trajectory.segments[0].ids[-1] ^= 1

    rewrite(copied, 2, edit)
    (found,) = repeated(opened(copied.path, 2))
    last = len(copied.read_trajectories(2)[0].segments[0].ids) - 1
    assert found.episodes.keys() == {0}
    assert found.episodes[0][0].startswith(f"other ids from token {last} on")
    assert found.update is not None
    assert any(text.startswith("update/advantage_") for text in found.update)
    assert any("tensors of" in text for text in found.update)
    assert not found.equal


@pytest.mark.slow
def test_an_edited_reward_and_log_prob_and_another_seed_are_found(copied: Run, opened: Open) -> None:
    def edit(trajectory: Any) -> None:
        trajectory.reward = 7.0
        trajectory.segments[0].logprobs[-1] -= 0.25

    rewrite(copied, 1, edit)
    (found,) = repeated(opened(copied.path, 1), sample=0)
    logprobs, reward = found.episodes[0]
    assert logprobs == "other log-probs at 1 tokens, by 0.25 at most"
    assert reward.startswith("reward 7.0 became 0.")
    config = copied.path / "config.yaml"
    config.write_text(config.read_text().replace("\nseed: 0\n", "\nseed: 1\n"))
    (found,) = repeated(opened(copied.path, 2))
    assert len(found.episodes) == 6


def test_what_cannot_be_repeated_is_said_in_a_sentence(run: Run, copied: Run, opened: Open, tmp_path: Path) -> None:
    file = copied.path / "checkpoints/step_000001/policy/model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    with pytest.raises(AgentR1Error, match="whose policy sampled step 2, is damaged"):
        opened(copied.path, 2)
    shutil.rmtree(copied.path / "checkpoints/step_000001")
    rewrite(copied, 1, lambda trajectory: setattr(trajectory, "demonstrated", "file"))
    config = copied.path / "config.yaml"
    config.write_text(config.read_text().replace("deterministic: true", "deterministic: false"))

    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: opened(tmp_path, 1), "is not a run; name a run's folder"),
        (lambda: opened(run.path, 3), "has recorded steps 1 to 2, so there is no step 3 to replay"),
        (
            lambda: opened(copied.path, 2),
            r"no checkpoint of step 1, .*every=1, checkpoint.keep=9\); steps that .* repeat: 1$",
        ),
        (
            lambda: sampled_again(copied, opened(copied.path, 1).own, None, 1, Notes()),
            "without deterministic=true, so its episodes cannot be sampled",
        ),
        (lambda: repeated(opened(run.path, 1), sample=6), "has 6 episodes, so none has the row 6"),
        (lambda: opened(run.path, 1, disabled=["calculator"]), "calculator"),
        (lambda: opened(run.path, 1, "env.max_turns=3"), "env.max_turns changes nothing that a replay derives"),
        (lambda: opened(run.path, 1, "training.tasks_per_step=3"), "training.tasks_per_step changes nothing"),
        (lambda: opened(run.path, 1, "algorithm=remax").record(1), "compares with greedy baselines"),
        (lambda: opened(run.path, 1, "algorithm=sdar").record(1), "in no record but of a run that had it"),
        (lambda: opened(copied.path, 1).record(1), "grpo learns from sampled episodes, and step 1 has recorded demo"),
    ]
    for call, sentence in wrong:
        with pytest.raises(AgentR1Error, match=sentence) as caught:
            call()
        assert "\n" not in str(caught.value)
