"""An update that is derived otherwise is the one that a run with these keys would have made."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_r1_replay.alternative import Alternative, derive_otherwise
from agent_r1_replay.kept import keep
from agent_r1_replay.opened import OpenedRun
from agent_r1_replay.replay_command import replay
from small_run import Notes, run_once

from agent_r1_core.errors import RunError
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import read_token_numbers, read_trajectories
from agent_r1_core.testing import CommandContract

Open = Callable[..., OpenedRun]
PPO = {"algorithm": "ppo", "training__critic_warmup": 0}


class TestReplay(CommandContract):
    component = replay


def derived(opened: OpenedRun, *steps: int) -> list[Alternative]:
    return list(derive_otherwise(opened, steps or [opened.step], Notes().note))


@pytest.mark.parametrize(
    ("changed", "keys"),
    [
        pytest.param({"algorithm": "rloo"}, ["algorithm=rloo"], marks=pytest.mark.slow),
        ({"rewards": "[{name: vowels, weight: 2}, early]"}, ["rewards=[{name: vowels, weight: 2}, early]"]),
        pytest.param(PPO, ["algorithm=ppo"], marks=pytest.mark.slow),
        pytest.param({"training__minibatches": 1}, ["training.minibatches=1"], marks=pytest.mark.slow),
    ],
    ids=["rloo", "rewards", "ppo", "minibatches"],
)
def test_it_is_the_update_of_a_run_with_these_keys(
    run: Run, folder: Path, kept: dict[str, Any], opened: Open, tmp_path: Path, changed: dict[str, Any], keys: list[str]
) -> None:
    """Bit for bit, of their first step, which has the same episodes; what is kept are these and the derived numbers."""
    other = run_once(folder, "-".join(["other", *changed]), 1, **{**kept, **changed})
    (found,) = derived(opened(run.path, 1, *keys))
    assert [one["advantages"] for one in found.derived] == [one["advantages"] for one in other.read_token_numbers(1)]
    line = other.metrics()[0]
    shared = found.metrics.keys() & line
    assert {name: line[name] for name in shared} == {name: found.metrics[name][1] for name in shared}
    assert "update/grad_norm" in shared
    assert found.returns[1] == pytest.approx(line["reward/mean"])
    numbers = [
        (one.id, one_then["advantages"], one_now["advantages"])
        for one, one_then, one_now in zip(found.trajectories, found.recorded, found.derived, strict=True)
    ]
    told = found.to_json()["advantages"]["tokens_of"]
    assert [(one["id"], one["recorded"], one["derived"]) for one in told] == numbers
    copied = Run.open(shutil.copytree(run.path, tmp_path / "run"))
    file = keep(copied, keys, [found]) / copied.trajectory_file(1).name
    assert [one.id for one in read_trajectories(file)] == [one.id for one in found.trajectories]
    assert [one["advantages"] for one in read_token_numbers(file)] == [one["advantages"] for one in found.derived]


def test_a_reward_that_asks_the_policy_is_answered(run: Run, opened: Open) -> None:
    (found,) = derived(opened(run.path, 1, "rewards=[vowels, {name: thought_effect, weight: 0.1}]"))
    assert [one.rewards["thought_effect"] for one in found.trajectories] == [0.0] * 6, "a random model does not think"


def test_gradients_of_all_steps_are_added_up(run: Run, opened: Open) -> None:
    """Weights that stand still give the same one twice."""
    lengths = []
    for epochs in (1, 2):
        keys = ["lr=1e-12", f"epochs={epochs}", "minibatches=1", "max_grad_norm=0"]
        one = opened(run.path, 1, *(f"training.{key}" for key in keys))
        found = one.deriver(one.changed, Notes().note).derive(one.record(1).trajectories, 1)
        lengths.append(float(sum(gradient.square().sum() for gradient in found.gradient.values())) ** 0.5)
    assert lengths[1] == pytest.approx(2 * lengths[0], rel=1e-4)


def test_nothing_is_kept_through_a_link_out_of_the_run(tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    run = Run.create(tmp_path, "run", {}, [])
    run.close()
    (run.path / "replays").symlink_to(elsewhere)
    with pytest.raises(RunError, match="it is a link that leads out of"):
        keep(run, ["algorithm=rloo"], [SimpleNamespace(step=1, trajectories=[], known=[])])  # type: ignore[list-item]
    assert not list(elsewhere.iterdir())


@pytest.mark.slow
def test_a_gradient_gets_another_length_and_direction(folder: Path, kept: dict[str, Any], opened: Open) -> None:
    """Rewards times two double Dr. GRPO's advantages and its gradient; less one, they turn both round."""
    once = {"training__epochs": 1, "training__minibatches": 1, "training__max_grad_norm": 0}
    dr_grpo = run_once(folder, "dr_grpo", 1, algorithm="dr_grpo", **once, **kept)
    (twice,) = derived(opened(dr_grpo.path, 1, "rewards=[{name: vowels, weight: 2}]"))
    assert twice.degrees == pytest.approx(0, abs=0.1)
    before, after = twice.metrics["update/grad_norm"]
    assert after == pytest.approx(2 * before, rel=1e-4)
    (turned,) = derived(opened(dr_grpo.path, 1, "rewards=[{name: vowels, weight: -1}]"))
    assert turned.degrees == pytest.approx(180, abs=0.1)
    assert turned.advantages.flips == turned.advantages.different == turned.advantages.tokens > 0
    assert turned.advantages.turns[0].recorded == -turned.advantages.turns[0].derived


@pytest.mark.slow
def test_a_critic_comes_and_goes(run: Run, folder: Path, kept: dict[str, Any], opened: Open, notes: Notes) -> None:
    (with_one,) = derived(opened(run.path, 2, "algorithm=ppo"))
    assert with_one.derived[0]["values"] is not None
    had = run_once(folder, "critic", 2, **{**kept, **PPO})
    (without,) = derived(opened(had.path, 2, "algorithm=grpo"))
    assert without.derived[0]["values"] is None
    (again,) = derived(opened(had.path, 2, "algorithm.lam=0.5"))
    assert again.metrics["update/advantage_std"][0] == had.metrics()[1]["update/advantage_std"]


@pytest.mark.slow
def test_the_command_says_what_changes(run: Run, tmp_path: Path, agent_r1: Callable[..., Any]) -> None:
    run = Run.open(shutil.copytree(run.path, tmp_path / "run"))
    done = agent_r1("replay", run.path, "--step", 2, "algorithm=rloo", "--trust", "--keep")
    assert done.exit_code == 0, done.stderr
    kept = run.path / "replays" / run.trajectory_file(2).name
    assert [one.id for one in read_trajectories(kept)] == [one.id for one in run.read_trajectories(2)]
    (told,) = json.loads(agent_r1("replay", run.path, "--step", 2, "algorithm=rloo", "--trust", "--json").stdout)[
        "steps"
    ]
    tokens = [one["derived"] for one in told["advantages"]["tokens_of"]]
    assert [one["advantages"] for one in read_token_numbers(kept)] == tokens
    assert json.loads(kept.with_suffix(".json").read_text()) == {"changed": ["algorithm=rloo"]}
    assert "credited tokens get another advantage" in done.stdout
    assert "degrees apart" in done.stdout
    assert "update/advantage_max" in done.stdout
    again = agent_r1("replay", run.path, "--step", 2, "--trust")
    assert again.exit_code == 0, again.stdout + again.stderr
    assert "6 of 6 episodes sampled again bit for bit" in again.stdout
    assert "numbers, metrics, the weights of checkpoints/step_000002/policy" in again.stdout
