"""The worlds with named actions keep the contract of environments; Sokoban and the two-armed bandit in particular."""

from __future__ import annotations

import random
import statistics
from typing import ClassVar

import pytest
from agent_r1_gymnasium.bandit import Bandit
from agent_r1_gymnasium.env import Gymnasium
from agent_r1_gymnasium.frozen_lake import FrozenLake
from agent_r1_gymnasium.sokoban import STEPS, Level, Sokoban, draw_level
from pydantic import ValidationError

from agent_r1_core.testing import ToolEnvContract, make_task


def read(text: str) -> Level:
    """The level that a picture shows."""
    rows = text.split()
    cells = {(row, column): symbol for row, line in enumerate(rows) for column, symbol in enumerate(line)}
    of = lambda symbols: frozenset(cell for cell, symbol in cells.items() if symbol in symbols)
    return Level(len(rows), of("#"), of("O√S"), of("X√"), *of("PS"))


def shortest(level: Level) -> list[str] | None:
    """A shortest solution, by looking at every state; None: there is none."""
    seen, states = {level}, [(level, [])]
    for now, moves in states:
        if now.solved:
            return moves
        for direction in STEPS:
            following = now.after(direction)
            if following not in seen:
                seen.add(following)
                states.append((following, [*moves, direction]))
    return None


@pytest.mark.parametrize("options", [(6, 1, 0.1, 4), (6, 2, 0.1, 3), (5, 1, 0.3, 2)])
def test_every_level_is_unsolved_and_can_be_solved(options: tuple) -> None:
    levels = [draw_level(random.Random(seed), *options) for seed in range(40)]
    assert len(set(levels)) > 30
    assert not any(level.boxes & level.targets for level in levels)
    assert all(shortest(level) for level in levels)


def test_more_pulls_make_harder_levels() -> None:
    lengths = [
        sum(len(shortest(draw_level(random.Random(seed), 6, 1, 0.1, pulls)) or []) for seed in range(40))
        for pulls in (1, 4)
    ]
    assert lengths[1] > 1.3 * lengths[0]


def test_boxes_are_pushed_and_never_pulled_or_stacked() -> None:
    level = read("###### #P_X_# #_XXO# #____# #____# ######")
    assert str(level.after("right").after("right")) == "######\n#__PX#\n#_XXO#\n#____#\n#____#\n######"
    assert level.after("down").after("right") == level.after("down"), "two boxes in a row do not move"
    assert level.after("up") == level
    assert level.after("right").after("left") == level, "walking away pulls nothing"


def test_a_box_on_and_off_a_target_pays_nothing_but_the_moves(begun, answer) -> None:
    env = begun(Sokoban, actions_per_turn=9)
    env._level = read("###### #PXO_# #____# #X__O# #____# ######")
    on, off = answer(env, "right"), answer(env, "right")
    assert (on.reward, off.reward) == (pytest.approx(0.09), pytest.approx(-0.11))
    assert (on.success, on.terminated) == (False, False)
    assert on.observation.messages[0]["content"] == "######\n#_P√_#\n#____#\n#X__O#\n#____#\n######"


def test_the_last_box_solves_the_room(begun, answer) -> None:
    env = begun(Sokoban)
    solution = shortest(read(env.show()))
    steps = [answer(env, direction) for direction in solution]
    assert [step.terminated for step in steps] == [False] * (len(steps) - 1) + [True]
    assert (steps[-1].success, steps[-1].reward) == (True, pytest.approx(1.09))


def test_more_boxes_than_the_room_takes_are_refused() -> None:
    with pytest.raises(ValidationError, match="has no room for 4 boxes"):
        Sokoban.Config(size=5, boxes=4)


def pays(begun, answer, arm: str, **options) -> list[float]:
    return [answer(begun(Bandit, luck=luck, **options), arm).reward for luck in range(400)]


def test_the_safe_arm_always_pays_little_and_the_risky_one_rarely_much(begun, answer) -> None:
    assert set(pays(begun, answer, "phoenix")) == {0.1}
    risky = pays(begun, answer, "dragon")
    assert set(risky) == {0.0, 1.0}
    assert statistics.fmean(risky) == pytest.approx(0.25, abs=0.07)


def test_the_names_can_be_exchanged(begun, answer) -> None:
    assert set(pays(begun, answer, "dragon", reverse=True)) == {0.1}


def test_success_is_the_arm_that_pays_more_on_average_and_not_luck(begun, answer) -> None:
    for luck in range(20):
        assert answer(begun(Bandit, luck=luck), "dragon").success is True
        assert answer(begun(Bandit, luck=luck), "phoenix").success is False
        assert answer(begun(Bandit, luck=luck, risky_chance=0.05), "phoenix").success is True
    with pytest.raises(ValidationError, match="pays the same"):
        Bandit.Config(safe_pay=0.25)


def test_both_orders_of_the_names_occur_and_pulls_end_the_episode(begun, answer) -> None:
    said = {begun(Bandit, seed=seed, rules="").first.messages[0]["content"] for seed in range(20)}
    assert said == {"Pull phoenix or dragon.", "Pull dragon or phoenix."}
    env = begun(Bandit, pulls=2)
    first = answer(env, "phoenix")
    assert first.observation.messages[0]["content"] == "It pays 0.1. Pull again."
    assert (first.terminated, answer(env, "phoenix").terminated) == (False, True)


DOWN, RIGHT = "<answer>down</answer>", "<answer>right</answer>"
SOLUTION = tuple(f"<answer>{name}</answer>" for name in ("up", "left", "left", "down", "right"))


class TestGymnasium(ToolEnvContract):
    component = Gymnasium
    config: ClassVar = {"id": "CliffWalking-v1", "actions": {"up": 0, "right": 1, "down": 2}, "max_steps": 6}
    actions = (DOWN, "Hm.", *["<answer>up</answer>"] * 5)


class TestGymnasiumWithObservations(ToolEnvContract):
    component = Gymnasium
    config: ClassVar = {"id": "Blackjack-v1", "text": "observation"}
    actions = ("<answer>1</answer>",) * 12


class TestFrozenLake(ToolEnvContract):
    component = FrozenLake
    config: ClassVar = {"success_rate": 1.0, "frozen": 1.0}
    task = make_task()
    actions = (DOWN, DOWN, "Hm.", DOWN, RIGHT, RIGHT, RIGHT)


class TestSokoban(ToolEnvContract):
    component = Sokoban
    config: ClassVar = {"size": 5, "walls": 0.0, "pulls": 1}
    task = make_task(seed=3)
    actions = ("Hm.", *SOLUTION)


class TestBandit(ToolEnvContract):
    component = Bandit
    config: ClassVar = {"pulls": 3}
    actions = ("<answer>dragon</answer>", "Hm.", "<answer>phoenix</answer>", "<answer>dragon</answer>")
