"""Training on the package itself, alone and with others, and many games at once."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from agent_r1_textarena.env import TextArena, TextArenaConfig

from agent_r1_core import ConfigError, Run, Sampling, train
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutSettings
from agent_r1_core.runs.trajectory_file import read_trajectories
from agent_r1_core.testing import ScriptedPolicy, tiny_tokenizer
from agent_r1_core.training.api import evaluate, resolve
from agent_r1_core.trajectory import Task

pytestmark = pytest.mark.slow
TALK = "id: SimpleNegotiation-v0, kwargs: {max_turns: 4}, rules: Talk., show: [prompt, action], max_turns: 4"
"""A game that goes on whatever a player says."""
REWARD = Path(__file__).parents[2] / "fixtures/end_to_end/vowels.py"


def trained(folder: Path, name: str, env: str, **changed: Any) -> Run:
    overrides = {
        "model.name": "tiny-worlds",
        "tasks.train": "{name: seeds, size: 20}",
        "env": f"{{name: textarena, {env}}}",
        "rewards": "[vowels]",
        "engine.max_new_tokens": 6,
        "training.steps": 2,
        "training.tasks_per_step": 3,
        "training.samples_per_task": 3,
        "checkpoint": "{every: 1, keep: 2, best: null}",
        "deterministic": "true",
        "run.dir": folder,
        "run.name": name,
        **{key.replace("__", "."): value for key, value in changed.items()},
    }
    return train("textarena", [f"{key}={value}" for key, value in overrides.items()], plugins=[REWARD])


def test_a_policy_learns_from_both_players(tmp_path: Path) -> None:
    run = trained(tmp_path, "both", f"{TALK}, opponent: self")
    played = read_trajectories(run.trajectory_file(2))
    assert sorted(one.player for one in played) == [0] * 9 + [1] * 9
    for step in run.metrics():
        assert step["logprob_gap"] < 1e-4
        assert step["rollout/episodes"] == 9
        assert step["update/grad_norm"] > 0


@pytest.mark.parametrize("opponent", ["start", "tiny-worlds"])
def test_a_frozen_opponent_stays_what_it_was_and_a_resumed_run_goes_on_bit_for_bit(
    tmp_path: Path, opponent: str
) -> None:
    env = f"{TALK}, opponent: {opponent}"
    whole = trained(tmp_path, "whole", env, training__steps=3)
    part = trained(tmp_path, "part", env, training__steps=2)
    part = train(part.path, ["training.steps=3"], resume=True)
    for one in (whole, part):
        assert {row.player for row in read_trajectories(one.trajectory_file(3))} == {0}
    files = [(run.path / "model" / "model.safetensors").read_bytes() for run in (whole, part)]
    assert files[0] == files[1]


def test_a_run_is_measured_against_the_model_that_it_began_with(tmp_path: Path) -> None:
    run = trained(tmp_path, "measured", f"{TALK}, opponent: self", training__steps=1)
    where = [f"model.name={run.path}", "tasks.eval={name: seeds, first: 1000000, size: 4}"]
    resolved = resolve(run.path, [*where, "env.opponent=tiny-worlds"], plugins=[REWARD], training=False)
    found, _ = evaluate(EvaluationPlan(resolved))
    assert found.result.metrics["success"].n == 4
    with pytest.raises(ConfigError, match="name the opponent"):
        evaluate(EvaluationPlan(resolved.replace({"env.opponent": "start"})))


def test_a_solo_game_trains(tmp_path: Path) -> None:
    run = trained(tmp_path, "solo", "id: GuessTheNumber-v0, show: [message, admin], max_turns: 4, max_tokens: 600")
    assert run.metrics()[-1]["rollout/failed"] == 0


def test_an_opponent_with_other_ids_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reads other ids"):
        trained(tmp_path, "other", f"{TALK}, opponent: tiny")


def test_a_thousand_games_sixty_four_at_once_leave_nothing_behind() -> None:
    config = TextArenaConfig(id="TicTacToe-v0", opponent="self", max_tokens=4000)
    tokenizer = ChatTokenizer(tiny_tokenizer(), name="tiny")
    policy = ScriptedPolicy(lambda cue: f"[{cue.request.seed % 9}]")
    settings = RolloutSettings(
        make_env=lambda services: TextArena(config, services), max_episodes=64, sampling=Sampling(max_new_tokens=8)
    )
    collector = Collector(policy, tokenizer, settings)

    def play(games: int, round: int) -> None:
        result = asyncio.run(
            collector.collect(RolloutRequest([Task(f"t{n}", "", seed=n) for n in range(games)], 1, round))
        )
        assert len(result.episodes) == games
        assert not result.dropped
        policy.requests.clear()

    play(64, 0)
    before = (len(os.listdir("/proc/self/fd")), threading.active_count(), _objects())
    play(1000, 1)
    after = (len(os.listdir("/proc/self/fd")), threading.active_count(), _objects())
    collector.close()
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1] + 2
    assert after[2] <= before[2] + 2000, "games stay in memory"


def _objects() -> int:
    """Objects alive; a game in memory holds about a hundred."""
    gc.collect()
    return len(gc.get_objects())
