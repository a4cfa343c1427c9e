"""Training on the package itself, alone and with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core import ConfigError, Run, train
from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.runs.trajectory_file import read_trajectories
from agent_r1_core.training.api import evaluate, resolve

pytestmark = pytest.mark.slow
TALK = "id: SimpleNegotiation-v0, kwargs: {max_turns: 4}, rules: Talk., show: [prompt, action], max_turns: 4"
"""A game that goes on whatever a player says."""
REWARD = Path(__file__).parents[2] / "fixtures/end_to_end/vowels.py"


def trained(folder: Path, name: str, env: str, steps: int = 2) -> Run:
    overrides = ["model.name=tiny-worlds", "tasks.train={name: seeds, size: 20}", f"env={{name: textarena, {env}}}"]
    overrides += ["rewards=[vowels]", "engine.max_new_tokens=6", "training.tasks_per_step=3", f"training.steps={steps}"]
    overrides += ["training.samples_per_task=3", "checkpoint={every: 1, keep: 2, best: null}", "deterministic=true"]
    return train("textarena", [*overrides, f"run.dir={folder}", f"run.name={name}"], plugins=[REWARD])


def test_a_policy_learns_from_both_players(tmp_path: Path) -> None:
    run = trained(tmp_path, "both", f"{TALK}, opponent: self")
    played = read_trajectories(run.trajectory_file(2))
    assert sorted(one.player for one in played) == [0] * 9 + [1] * 9
    for step in run.metrics():
        assert step["logprob_gap"] < 1e-4
        assert step["rollout/episodes"] == 9
        assert step["update/grad_norm"] > 0


@pytest.mark.parametrize("opponent", ["start", "tiny-worlds"])
def test_a_frozen_opponent_stays_what_it_was_and_a_resumed_run_goes_on_bit_for_bit(tmp_path, opponent) -> None:
    env = f"{TALK}, opponent: {opponent}"
    whole = trained(tmp_path, "whole", env, steps=3)
    part = trained(tmp_path, "part", env)
    part = train(part.path, ["training.steps=3"], resume=True)
    for one in (whole, part):
        assert {row.player for row in read_trajectories(one.trajectory_file(3))} == {0}
    files = [(run.path / "model" / "model.safetensors").read_bytes() for run in (whole, part)]
    assert files[0] == files[1]


def test_a_run_is_measured_against_the_model_that_it_began_with(tmp_path: Path) -> None:
    run = trained(tmp_path, "measured", f"{TALK}, opponent: self", steps=1)
    where = [f"model.name={run.path}", "tasks.eval={name: seeds, first: 1000000, size: 4}"]
    resolved = resolve(run.path, [*where, "env.opponent=tiny-worlds"], plugins=[REWARD], training=False)
    found, _ = evaluate(EvaluationPlan(resolved))
    assert found.result.metrics["success"].n == 4
    with pytest.raises(ConfigError, match="name the judge or the opponent in the option that says start"):
        evaluate(EvaluationPlan(resolved.replace({"env.opponent": "start"})))


def test_a_solo_game_trains_and_an_opponent_with_other_ids_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path, "solo", "id: GuessTheNumber-v0, show: [message, admin], max_turns: 4, max_tokens: 600")
    assert run.metrics()[-1]["rollout/failed"] == 0
    with pytest.raises(ConfigError, match="reads other ids"):
        trained(tmp_path, "other", f"{TALK}, opponent: tiny")
