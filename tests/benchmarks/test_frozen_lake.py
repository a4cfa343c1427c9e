"""The optimum on the frozen lake: equal to what one computes by hand, and what its own actions reach."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType

import pytest
from agent_r1_gymnasium.frozen_lake import FrozenLake

from agent_r1_core import Action, EnvServices, Task, train


@pytest.fixture
def benchmark(root, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import frozen_lake

    return frozen_lake


def lake(**options: float) -> FrozenLake:
    return FrozenLake(FrozenLake.Config(rules="", **options))


def test_a_lake_of_four_cells_by_hand(benchmark: ModuleType) -> None:
    """Right, then down: right succeeds (.8), stays (.1) or lands below (.1). Who sees that goes right from below (.8);
    who does not goes on downwards and slips to the goal (.1)."""
    chances = benchmark.transitions(lake(size=2, frozen=1.0).make(0))
    assert chances.sum(2) == pytest.approx(1.0)
    assert benchmark.optimum(chances, turns=1, actions=1) == 0.0
    assert benchmark.optimum(chances, turns=2, actions=1) == pytest.approx(0.8 * 0.8 + 0.1 * 0.8)
    assert benchmark.optimum(chances, turns=1, actions=2) == pytest.approx(0.8 * 0.8 + 0.1 * 0.1)


def test_without_slips_blind_actions_lose_nothing_and_with_them_they_do(benchmark: ModuleType) -> None:
    sure = benchmark.optima(lake(success_rate=1.0), range(30), 12, [1, 2, 3])
    assert sure == {1: 1.0, 2: 1.0, 3: 1.0}
    slippery = benchmark.optima(lake(), range(30), 12, [1, 2, 3])
    assert 0.5 < slippery[3] < slippery[2] < slippery[1] < 0.95


def test_nobody_beats_the_optimum_and_the_best_actions_reach_it(benchmark: ModuleType) -> None:
    """One lake, played many times by the actions that the value iteration picks; 4 standard errors."""
    chances = benchmark.transitions(lake().make(5))
    values = [chances[0, :, 0] * 0]
    values[0][-1] = 1.0
    for _ in range(12):
        values.append((chances @ values[-1]).max(axis=0))
    names = ("left", "down", "right", "up")
    games, won = 600, 0
    for luck in range(games):
        env = FrozenLake(FrozenLake.Config(), EnvServices(rng=random.Random(luck)))
        env.reset(Task("t", "", seed=5))
        for left in range(11, -1, -1):
            best = (chances @ values[left])[:, env._env.s].argmax()
            step = env.step(Action(f"<answer>{names[best]}</answer>"))
            if step.terminated:
                break
        won += bool(step.success)
    optimum = benchmark.optimum(chances, 12, 1)
    assert won / games == pytest.approx(optimum, abs=4 * (optimum * (1 - optimum) / games) ** 0.5)


@pytest.mark.slow
def test_it_measures_the_policy_that_the_run_trained(benchmark: ModuleType, tmp_path: Path) -> None:
    """And not the model from which the run began."""
    small = ["training.steps=1", "training.tasks_per_step=1", "training.samples_per_task=2", "evaluation.size=2"]
    run = train("frozen_lake", [*small, "training.minibatches=1", f"run.dir={tmp_path}"])
    assert benchmark.resolved_for(run.path, 3).config.model.name == str(run.path)
    assert benchmark.resolved_for(None, 3).config.evaluation.size == 3
