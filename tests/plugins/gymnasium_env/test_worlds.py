"""Worlds of our own keep the contract of environments: Sokoban, the two-armed bandit, the slippery lake."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from typing import ClassVar

import pytest
from agent_r1_gymnasium.bandit import Bandit
from agent_r1_gymnasium.env import Gymnasium
from agent_r1_gymnasium.frozen_lake import HELD_OUT, FrozenLake, draw_map, ways
from agent_r1_gymnasium.sokoban import STEPS, Level, Sokoban, draw_level
from pydantic import ValidationError

from agent_r1_core.testing import ToolEnvContract, make_task

from .conftest import answer, begun, text_of

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
    with pytest.raises(ValidationError, match="has no room for 4 boxes"):
        Sokoban.Config(size=5, boxes=4)


def test_boxes_are_pushed_never_pulled_or_stacked_and_more_pulls_make_harder_levels() -> None:
    level = read("###### #P_X_# #_XXO# #____# #____# ######")
    assert str(level.after("right").after("right")) == "######\n#__PX#\n#_XXO#\n#____#\n#____#\n######"
    assert level.after("down").after("right") == level.after("down"), "two boxes in a row do not move"
    assert level.after("up") == level
    assert level.after("right").after("left") == level, "walking away pulls nothing"
    drawn = [[draw_level(random.Random(seed), 6, 1, 0.1, pulls) for seed in range(40)] for pulls in (1, 4)]
    few, many = (sum(len(shortest(level) or []) for level in levels) for levels in drawn)
    assert many > 1.3 * few


def test_a_box_on_and_off_a_target_pays_nothing_but_the_moves_and_the_last_one_solves_the_room() -> None:
    env = begun(Sokoban, actions_per_turn=9)
    env._level = read("###### #PXO_# #____# #X__O# #____# ######")
    on, off = answer(env, "right"), answer(env, "right")
    assert (on.reward, off.reward) == (pytest.approx(0.09), pytest.approx(-0.11))
    assert (on.success, on.terminated) == (False, False)
    assert text_of(on.observation) == "######\n#_P√_#\n#____#\n#X__O#\n#____#\n######"
    env = begun(Sokoban)
    steps = [answer(env, direction) for direction in shortest(read(env.show()))]
    assert [step.terminated for step in steps] == [False] * (len(steps) - 1) + [True]
    assert (steps[-1].success, steps[-1].reward) == (True, pytest.approx(1.09))


def pays(arm: str, **options) -> list[float]:
    return [answer(begun(Bandit, luck=luck, **options), arm).reward for luck in range(400)]


def test_the_safe_arm_pays_little_the_risky_one_rarely_much_and_pulls_end_the_episode() -> None:
    assert set(pays("phoenix")) == {0.1}
    risky = pays("dragon")
    assert set(risky) == {0.0, 1.0}
    assert statistics.fmean(risky) == pytest.approx(0.25, abs=0.07)
    assert set(pays("dragon", reverse=True)) == {0.1}, "the names are exchanged"
    for luck in range(20):
        assert answer(begun(Bandit, luck=luck), "dragon").success is True
        assert answer(begun(Bandit, luck=luck), "phoenix").success is False
        assert answer(begun(Bandit, luck=luck, risky_chance=0.05), "phoenix").success is True
    with pytest.raises(ValidationError, match="pays the same"):
        Bandit.Config(safe_pay=0.25)
    said = {text_of(begun(Bandit, seed=seed, rules="").first) for seed in range(20)}
    assert said == {"Pull phoenix or dragon.", "Pull dragon or phoenix."}
    env = begun(Bandit, pulls=2)
    first = answer(env, "phoenix")
    assert text_of(first.observation) == "It pays 0.1. Pull again."
    assert (first.terminated, answer(env, "phoenix").terminated) == (False, True)


def test_a_task_draws_its_map_every_map_has_a_way_and_no_map_of_training_is_evaluated() -> None:
    maps = [text_of(begun(FrozenLake, seed=seed, rules="").first) for seed in range(50)]
    assert len(set(maps)) > 40
    assert maps[3] == text_of(begun(FrozenLake, seed=3, luck=9, rules="").first)
    for text in maps:
        rows = text.split("\n")
        assert [len(row) for row in rows] == [4] * 4
        assert (rows[0][0], rows[3][3]) == ("P", "G")
        assert reachable(rows)
    share = sum(text.count("O") for text in maps) / (14 * len(maps))
    assert 0.1 < share < 0.25, "a fifth of the cells are holes, less those that closed every way"
    trained = {tuple(draw_map(seed, 4, 0.8)) for seed in range(600)}
    held_out = {tuple(draw_map(seed, 4, 0.8)) for seed in range(HELD_OUT, HELD_OUT + 200)}
    assert len(held_out) > 80
    assert not trained & held_out
    assert draw_map(HELD_OUT, 4, 1.0) == ["SFFF", "FFFF", "FFFF", "FFFG"]


def reachable(rows: list[str]) -> bool:
    seen, left = {(0, 0)}, [(0, 0)]
    while left:
        row, column = left.pop()
        for cell in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            if cell not in seen and min(cell) >= 0 and max(cell) < 4 and rows[cell[0]][cell[1]] != "O":
                seen.add(cell)
                left.append(cell)
    return (3, 3) in seen


def test_the_cells_around_are_those_of_the_map() -> None:
    env = begun(FrozenLake, frozen=1.0, success_rate=1.0, view="both", rules="")
    assert text_of(env.first) == "P___\n____\n____\n___G\nat 0 0: left # down _ right _ up #"
    for name in ("down", "down", "right", "right", "right"):
        step = answer(env, name)
    assert text_of(step.observation) == "____\n____\n___P\n___G\nat 2 3: left _ down G right # up _"
    only = begun(FrozenLake, frozen=1.0, success_rate=1.0, view="around", rules="")
    assert text_of(only.first) == "at 0 0: left # down _ right _ up #"


def test_the_goal_is_a_success_a_hole_is_none_and_every_step_of_the_way_is_rewarded_once() -> None:
    env = begun(FrozenLake, frozen=1.0, success_rate=1.0, actions_per_turn=6)
    step = answer(env, "down, down, down, right, right")
    assert (step.success, step.reward, step.terminated) == (False, 0.0, False)
    step = answer(env, "right, left")
    assert (step.success, step.reward, step.terminated, step.info["moves"]) == (True, 1.0, True, 1)
    seed = next(seed for seed in range(99) if draw_map(seed, 4, 0.8)[0][1] == "H")
    step = answer(begun(FrozenLake, seed=seed, success_rate=1.0), "right")
    assert (step.success, step.reward, step.terminated, step.truncated) == (False, 0.0, True, False)
    assert answer(begun(FrozenLake), "fly").success is False, "None would leave it out of the share of successes"
    lake = [[bytes([cell]) for cell in row] for row in (b"SHF", b"FHH", b"FFG")]
    assert ways(lake) == {8: 0, 7: 1, 6: 2, 3: 3, 0: 4}, "the cell behind the holes has no way"
    env = begun(FrozenLake, frozen=1.0, success_rate=1.0, nearer=0.1)
    walk = ("left", "right", "left", "right", "down", "up")
    assert [round(answer(env, name).reward, 3) for name in walk] == [0.0, 0.1, 0.0, 0.0, 0.1, 0.0]
    assert round(answer(env, "down").reward, 3) == 0.0, "it has been there"
    fast = begun(FrozenLake, frozen=1.0, success_rate=1.0, nearer=0.1, actions_per_turn=6)
    assert round(answer(fast, "down, down, down, right").reward, 3) == 0.4


def test_one_slips_as_often_as_the_recipe_says_and_each_episode_by_itself() -> None:
    landed = Counter()
    for luck in range(600):
        env = begun(FrozenLake, luck=luck, frozen=1.0, success_rate=0.7, size=8, view="around", rules="")
        landed[text_of(answer(env, "right").observation)[:6]] += 1
    assert set(landed) == {"at 0 1", "at 1 0", "at 0 0"}
    assert abs(landed["at 0 1"] / 600 - 0.7) < 0.06
    assert abs(landed["at 1 0"] / 600 - 0.15) < 0.05
