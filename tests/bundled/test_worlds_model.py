"""The bundled worlds model plays legally, and without aim; Countdown is what it is worst at."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from agent_r1_core.assembly.model_source import BUNDLED
from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.training.api import evaluate, resolve
from agent_r1_core.trajectory import Trajectory

WORLDS = {
    "frozen_lake": ("{name: frozen_lake, view: around, max_turns: 12}", 0.9),
    "sokoban": ("{name: sokoban, max_turns: 6}", 0.9),
    "bandit": ("{name: bandit}", 0.9),
    "countdown": ("{name: countdown}", 0.3),
}
"""Each world, and the share of its turns that must be legal."""


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Trajectory]]:
    """Sampled episodes of a world on held-out seeds."""

    @cache
    def played(world: str) -> list[Trajectory]:
        env, folder = WORLDS[world][0], tmp_path_factory.mktemp(world)
        tasks = "tasks={train: {name: seeds}, eval: {name: seeds, first: 1000000, size: 40}}"
        model = "model={name: tiny-worlds, dtype: float32}"
        sampling = ["evaluation.greedy=false", "engine.max_new_tokens=32", "threads=1"]
        overrides = [model, f"env={env}", tasks, "tools=[]", "rewards=[]", f"run.dir={folder}", *sampling]
        found, _ = evaluate(EvaluationPlan(resolve(None, overrides, training=False)))
        return found.trajectories

    return played


@pytest.mark.parametrize("world", WORLDS)
def test_it_plays_legally(world: str, play: Callable[[str], list[Trajectory]]) -> None:
    turns = [turn for trajectory in play(world) for turn in trajectory.turns]
    assert sum(not turn.errors for turn in turns) / len(turns) > WORLDS[world][1]


def test_it_crosses_the_lake_only_by_chance_and_tries_every_direction(play: Callable[[str], list[Trajectory]]) -> None:
    episodes = play("frozen_lake")
    assert sum(bool(episode.success) for episode in episodes) / len(episodes) < 0.25
    said = {turn.text for episode in episodes for turn in episode.turns}
    assert {f"<answer>{name}</answer>" for name in ("left", "down", "right", "up")} <= said


def test_its_card_states_what_it_can_do() -> None:
    card = (BUNDLED / "tiny-worlds" / "README.md").read_text()
    for world, (_, share) in WORLDS.items():
        figure = card.partition(f"| legal turns, {world} | ")[2].partition(" |")[0]
        assert float(figure) > share
