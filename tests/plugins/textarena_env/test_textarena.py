"""Games of TextArena, on the package itself: alone, against others, each with chance of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from typing import Any, ClassVar

import pytest
from agent_r1_textarena.env import TextArena, TextArenaConfig
from agent_r1_textarena.game import refusal
from agent_r1_textarena.moves import random_move
from pydantic import ValidationError

from agent_r1_core import Action, ConfigError, EnvServices, EpisodeError, Observation, Step, Task
from agent_r1_core.testing import ToolEnvContract

Moves = Callable[[str, random.Random], str]


class TestContract(ToolEnvContract):
    component = TextArena
    variants: ClassVar = [
        *({"id": "TicTacToe-v0", "opponent": opponent} for opponent in ("self", "random")),
        {"id": "KuhnPoker-v0", "opponent": "start"},
        {"id": "GuessTheNumber-v0"},
        {"id": "2048-v0", "show": ["board", "admin"]},
    ]
    actions = (*(f"[{square}]" for square in (0, 3, 1, 4, 2, 5, 6, 7, 8)), "nothing", "nothing")


def begun(name: str, seed: int = 7, luck: int = 0, **options: Any) -> tuple[TextArena, Observation]:
    env = TextArena(TextArenaConfig(id=name, **options), EnvServices(rng=random.Random(luck)))
    return env, env.reset(Task("t", "Begin.", seed=seed))


def text(observation: Observation) -> str:
    return str(observation.messages[0]["content"])


def steps(name: str, moves: Moves = random_move, **options: Any) -> Iterator[tuple[Observation, Step | None]]:
    """A game move by move: what is read, and the last step at its end."""
    env, seen = begun(name, **options)
    chance, step = random.Random(5), None
    while step is None or not step.terminated:
        yield seen, None
        step = env.step(Action(moves(text(seen), chance)))
        seen = step.observation
    yield seen, step


GAMES: list[tuple[str, Moves, dict[str, Any]]] = [
    ("2048-v0-mega-easy", lambda _, chance: chance.choice(["[Up]", "[Left]", "[Down]", "[Right]"]), {"max_turns": 400}),
    ("KuhnPoker-v0-long", random_move, {"opponent": "self"}),
    ("Sokoban-v0", lambda seen, chance: chance.choice(["[up]", "[left]", "[down]", "[right]"]), {}),
    ("PigDice-v0", lambda seen, chance: "[roll]", {"opponent": "self"}),
]
"""Games of chance."""


def story(game: Iterator[Any]) -> list[str]:
    return [repr(part) for part in game]


@pytest.mark.parametrize(("name", "moves", "options"), GAMES, ids=[game[0] for game in GAMES])
def test_games_disturb_neither_each_other_nor_anyone_else(name: str, moves: Moves, options: dict[str, Any]) -> None:
    alone = [story(steps(name, moves, seed=seed, **options)) for seed in (1, 2)]
    random.seed(3)
    before = random.getstate()
    stories: list[list[str]] = [[], []]
    for parts in zip_longest(*(steps(name, moves, seed=seed, **options) for seed in (1, 2))):
        for told, part in zip(stories, parts, strict=True):
            told += [repr(part)] if part else []
        assert random.getstate() == before
        random.random()
        random.setstate(before)
    assert stories == alone


def test_games_in_threads_of_their_own_are_the_same_games() -> None:
    name, moves, options = GAMES[0]
    play = lambda seed: story(steps(name, moves, seed=seed, **options))
    alone = [play(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(play, range(8))) == alone


def test_a_player_reads_the_rules_once_and_whoever_wins_takes_what_the_other_loses() -> None:
    env, first = begun("Nim-v0", opponent="self")
    assert text(first).startswith("Welcome to Nim, Player 0!")
    second = env.step(Action("<think>[1 1]?</think>[2 3]")).observation
    assert second.player == 1
    assert text(second).startswith("Welcome to Nim, Player 1!")
    assert "Player 0: [2 3]\n" in text(second)
    third = env.step(Action("[0 1]")).observation
    assert third.player == 0
    assert "Player 1: [0 1]" in text(third)
    assert not {"Welcome", "Player 0: "} & {word for word in ("Welcome", "Player 0: ") if word in text(third)}
    assert text(third).count("Current Pile") == 1, "an older board is outdated"
    _, shown = begun("Nim-v0", opponent="self", show=["prompt", "board"], rules="Player {player}, take.")
    assert text(shown) == "Player 0, take.\nCurrent Pile:\n  pile 0: 3\n  pile 1: 4\n  pile 2: 5"
    # In Kuhn poker the game calls that one Player 1.
    games = list(steps("KuhnPoker-v0", opponent="self"))
    assert (games[0][0].player, "You are Player 1" in text(games[0][0])) == (0, True)
    assert {seen.player for seen, _ in games} == {0, 1}
    *_, (_, last) = steps("Nim-v0", opponent="self", seed=1)
    assert last is not None
    assert (last.reward, last.success, last.info["result"]) == (1.0, True, "Player 0 took the last object(s)!")
    other = last.others[1]
    assert (other.reward, other.success, other.info["first_won"], other.info["drawn"]) == (-1.0, False, 1, 0)


def test_a_function_may_play_the_others_and_the_policys_seat_alternates_with_the_tasks_seed() -> None:
    env, seen = begun("TicTacToe-v0", seed=1, opponent="agent_r1_textarena.moves:random_move")
    assert text(seen) == text(begun("TicTacToe-v0", seed=1, opponent="random")[1])
    assert TextArena.programs(env.config) == {"opponent": "function agent_r1_textarena.moves:random_move"}
    assert TextArena.frozen_model(env.config) is None
    assert TextArena.frozen_model(TextArenaConfig(id="Nim-v0", opponent="runs/first")) == "runs/first"
    for opponent in ("random", "start"):
        seats = [begun("TicTacToe-v0", seed=seed, opponent=opponent)[1] for seed in range(4)]
        if opponent == "random":
            assert ["You are Player 0" in text(seen) for seen in seats] == [True, False, True, False]
            assert {(seen.player, seen.frozen) for seen in seats} == {(0, False)}
        else:
            assert [(seen.player, seen.frozen) for seen in seats] == [(0, False), (1, True)] * 2


def test_one_invalid_action_is_answered_the_second_loses_and_a_part_of_a_solo_reward_is_kept() -> None:
    env, _ = begun("TicTacToe-v0", opponent="self")
    once = env.step(Action("the middle"))
    assert (once.terminated, once.observation.player, once.info["illegal"], len(once.errors)) == (False, 0, 1, 1)
    assert "invalid move" in text(once.observation)
    twice = env.step(Action("the middle"))
    assert (twice.terminated, twice.reward, twice.success, twice.info["illegal"]) == (True, -1.0, False, 1)
    env, _ = begun("TicTacToe-v0", opponent="self", illegal_penalty=0.25)
    assert env.step(Action("the middle")).reward == -0.25
    follows = env.step(Action("[4]"))
    assert (follows.observation.player, follows.reward) == (1, 0.0)
    assert lose("Countdown-v0").reward == -1.0
    assert lose("Countdown-v0", invalid_reward=-0.25).reward == -0.25
    assert 0 < lose("GuessTheNumber-v0", "[3]").reward < 1
    lost = lose("GuessTheNumber-v0", "[3]", invalid_reward=0)
    assert (lost.reward, lost.success) == (0.0, False)


def lose(name: str, first: str = "nothing", **options: Any) -> Step:
    env, _ = begun(name, **options)
    for action in (first, "nothing", "nothing"):
        step = env.step(Action(action))
        if step.terminated:
            return step
    raise AssertionError("the game goes on")


def test_games_that_cannot_be_played_here_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Wordle-v0-hardcore", "TwentyQuestions-v0", "MarketEntryGame-v0", "BabyAiText-v0"):
        assert name in str(TextArena.unavailable(TextArenaConfig(id=name)))
    assert TextArena.unavailable(TextArenaConfig(id="Nim-v0")) is None
    monkeypatch.setattr("sys.version_info", (3, 11, 9))
    assert "Python 3.12" in str(refusal("Chess-v0"))
    monkeypatch.setattr("sys.version_info", (3, 12, 0))
    assert refusal("Chess-v0") is None


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("Nimm-v0", {}, "no game Nimm-v0"),
        ("Nim-v0", {}, "cannot begin with 1 players"),
        ("2048-v0", {"opponent": "self"}, "cannot begin with 2 players"),
        ("Nim-v0", {"opponent": "self", "kwargs": {"heaps": 3}}, "heaps"),
        ("Othello-v0", {"opponent": "random", "kwargs": {"show_valid": False}, "seed": 1}, "lists no moves"),
        ("Nim-v0", {"opponent": "no_such_module:move"}, "no_such_module:move cannot be imported: .* PYTHONPATH"),
        ("Nim-v0", {"opponent": "agent_r1_textarena.moves:move"}, "has no attribute 'move'"),
        ("Nim-v0", {"opponent": "agent_r1_textarena.moves:__name__"}, "is no function"),
        ("Nim-v0", {"opponent": "builtins:print", "seed": 1}, "builtins:print gave None; return an action as text"),
    ],
)
def test_what_cannot_begin_says_so(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises((EpisodeError, ConfigError), match=said):
        begun(name, **options)


def test_options_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValidationError, match="take Nim-v0"):
        TextArenaConfig(id="Nim-v0-raw")
    assert "players" in TextArena.idle_options(TextArenaConfig(id="2048-v0"))
    assert "invalid_reward" in TextArena.idle_options(TextArenaConfig(id="Nim-v0", opponent="self"))
