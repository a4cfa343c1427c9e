"""Sokoban: its moves and rewards, and that every level can be solved."""

from __future__ import annotations

import random

import pytest
from agent_r1_gymnasium.sokoban import STEPS, Level, Sokoban, draw_level
from pydantic import ValidationError


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
