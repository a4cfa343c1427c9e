"""The slippery lake: its maps, its text, its slips."""

from __future__ import annotations

from collections import Counter

from agent_r1_gymnasium.frozen_lake import HELD_OUT, FrozenLake, draw_map, ways


def text_of(observation) -> str:
    return observation.messages[0]["content"]


def test_a_task_draws_its_map_and_every_map_has_a_way(begun) -> None:
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


def test_no_map_of_training_is_evaluated() -> None:
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


def test_the_cells_around_are_those_of_the_map(begun, answer) -> None:
    env = begun(FrozenLake, frozen=1.0, success_rate=1.0, view="both", rules="")
    assert text_of(env.first) == "P___\n____\n____\n___G\nat 0 0: left # down _ right _ up #"
    for name in ("down", "down", "right", "right", "right"):
        step = answer(env, name)
    assert text_of(step.observation) == "____\n____\n___P\n___G\nat 2 3: left _ down G right # up _"
    only = begun(FrozenLake, frozen=1.0, success_rate=1.0, view="around", rules="")
    assert text_of(only.first) == "at 0 0: left # down _ right _ up #"


def test_the_goal_is_a_success_and_pays_one(begun, answer) -> None:
    env = begun(FrozenLake, frozen=1.0, success_rate=1.0, actions_per_turn=6)
    step = answer(env, "down, down, down, right, right")
    assert (step.success, step.reward, step.terminated) == (False, 0.0, False)
    step = answer(env, "right, left")
    assert (step.success, step.reward, step.terminated, step.info["moves"]) == (True, 1.0, True, 1)


def test_every_step_of_the_way_is_rewarded_once_around_holes(begun, answer) -> None:
    lake = [[bytes([cell]) for cell in row] for row in (b"SHF", b"FHH", b"FFG")]
    assert ways(lake) == {8: 0, 7: 1, 6: 2, 3: 3, 0: 4}, "the cell behind the holes has no way"
    env = begun(FrozenLake, frozen=1.0, success_rate=1.0, nearer=0.1)
    walk = ("left", "right", "left", "right", "down", "up")
    assert [round(answer(env, name).reward, 3) for name in walk] == [0.0, 0.1, 0.0, 0.0, 0.1, 0.0]
    assert round(answer(env, "down").reward, 3) == 0.0, "it has been there"
    step = answer(
        begun(FrozenLake, frozen=1.0, success_rate=1.0, nearer=0.1, actions_per_turn=6), "down, " * 3 + "right"
    )
    assert round(step.reward, 3) == 0.4


def test_a_hole_ends_the_episode_without_reward(begun, answer) -> None:
    seed = next(seed for seed in range(99) if draw_map(seed, 4, 0.8)[0][1] == "H")
    step = answer(begun(FrozenLake, seed=seed, success_rate=1.0), "right")
    assert (step.success, step.reward, step.terminated, step.truncated) == (False, 0.0, True, False)
    assert answer(begun(FrozenLake), "fly").success is False, "None would leave it out of the share of successes"


def test_one_slips_as_often_as_the_recipe_says_and_each_episode_by_itself(begun, answer) -> None:
    landed = Counter()
    for luck in range(600):
        env = begun(FrozenLake, luck=luck, frozen=1.0, success_rate=0.7, size=8, view="around", rules="")
        landed[text_of(answer(env, "right").observation)[:6]] += 1
    assert set(landed) == {"at 0 1", "at 1 0", "at 0 0"}
    assert abs(landed["at 0 1"] / 600 - 0.7) < 0.06
    assert abs(landed["at 1 0"] / 600 - 0.15) < 0.05
