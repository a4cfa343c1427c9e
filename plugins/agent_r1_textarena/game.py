"""Game: one game of TextArena with chance of its own, and the games that cannot be played here.

The package draws all chance from Python's global generator, which each game seeds: two games at once would change each
other. Here its modules draw from the generator of the game that plays in their thread; without one, from the global
one, as ever.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from types import ModuleType
from typing import Any

from agent_r1_core import EpisodeError
from agent_r1_core.errors import first_line

_PYTHON = ("Checkers", "Chess", "IteratedStagHunt", "Klondike", "ReverseTicTacToe", "UltimateTexasHoldem")
_WORDS = (
    "Codenames", "DontSayIt", "Hangman", "LetterAuction", "SpellingBee", "WordChains", "WordLadder", "WordSearch",
    "Wordle",
)  # fmt: skip
_ASK = ("Debate", "GuessWho", "ScenarioPlanning", "TwentyQuestions")
_BROKEN = {
    "BabyAiText": "needs the abandoned package gym",
    "MarketEntryGame": "never begins",
    "ScorableGames": "lacks files in its package",
    "UsedCarNegotiation": "cannot be imported",
}
_LOCAL = threading.local()
_IMPORTING = threading.Lock()
_CUT_OFF: set[str] = set()
"""Modules that draw from the games' generators."""


def refusal(name: str) -> str | None:
    """Why a game cannot be played here, in a sentence; None if nothing is known against it."""
    family = name.partition("-v")[0]
    why = _BROKEN.get(family)
    if family in _PYTHON and sys.version_info < (3, 12):
        why = "needs Python 3.12 or later"
    elif family in _WORDS:
        why = "downloads word lists of NLTK in every episode"
    elif family in _ASK:
        why = "asks a model over OpenRouter"
    return None if why is None else f"the game {name} of TextArena {why}; take another game"


class _Chance:
    """The module `random`, or `numpy.random`, for the modules of TextArena."""

    def __init__(self, real: Any, own: str) -> None:
        self._real, self._own = real, own

    def __getattr__(self, name: str) -> Any:
        generator = getattr(_LOCAL, self._own, None)
        return getattr(generator if hasattr(generator, name) else self._real, name)


class _Numpy:
    """The module `numpy` with another `random`."""

    def __init__(self, real: Any) -> None:
        self._real, self.random = real, _Chance(real.random, "arrays")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Game:
    """One game; every method runs in the thread that calls it."""

    def __init__(self, name: str, options: Mapping[str, Any], players: int, seed: int) -> None:
        """Begin a game whose start and chance the seed draws.

        Raises:
            EpisodeError: there is no such game, or not with these options or so many players.
        """
        self.over = False
        self.result: tuple[dict[int, Any], dict[int, dict[str, Any]]] = {}, {}
        """Of a game that is over: what it is worth to each player, and what else it says of each."""
        self._chance: dict[str, Any] = {"numbers": random.Random(seed)}
        if numpy := sys.modules.get("numpy"):
            self._chance["arrays"] = numpy.random.RandomState(seed % 2**32)
        with self._own_chance():
            with _IMPORTING:
                make = _maker(name)
            try:
                self._env = make(**deepcopy(dict(options)))
                self._env.reset(num_players=players, seed=seed)
            except Exception as error:
                reason = first_line(error)
                raise EpisodeError(f"{name} of TextArena cannot begin with {players} players: {reason}") from error

    def look(self) -> tuple[int, list[tuple[int, str, str]]]:
        """Who acts next, and what is new to them: who said it (-1: the game), what, and the name of its kind."""
        with self._own_chance():
            seat, messages = self._env.get_observation()
        # Countdown, Cryptarithm and Slitherlink put a player's own action into the wrong places.
        known = [message for message in messages if isinstance(message[0], int)]
        return int(seat), [(speaker, str(text), kind.name) for speaker, text, kind in known]

    def act(self, text: str) -> bool:
        """Act for whoever is next; says whether the action was invalid."""
        seat = self._env.state.current_player_id
        with self._own_chance():
            self.over = bool(self._env.step(text)[0])
            if not self.over:
                return bool(getattr(self._env.state, "error_count", 0))
            rewards, about = self._env.close()
        self.result = dict(rewards or {}), dict(about or {})
        return bool(self.result[1].get(seat, {}).get("invalid_move"))

    @contextmanager
    def _own_chance(self) -> Iterator[None]:
        vars(_LOCAL).update(self._chance)
        try:
            yield
        finally:
            vars(_LOCAL).clear()


def _say_nothing(*values: Any, **options: Any) -> None:
    """In place of `print`."""


def _maker(name: str) -> Any:
    """What makes a game, its modules imported and cut off from the global generators."""
    import textarena.envs.registration as registry

    spec = registry.ENV_REGISTRY.get(f"{name}-raw")
    if spec is None:
        raise EpisodeError(f"TextArena has no game {name}; its README lists them, such as TicTacToe-v0")
    module, _, cls = str(spec.entry_point).partition(":")
    try:
        found = getattr(__import__(module, fromlist=[cls]), cls)
    except Exception as error:
        raise EpisodeError(f"{name} of TextArena cannot be imported: {error}") from error
    for known in {one for one in sys.modules if one.partition(".")[0] == "textarena"} - _CUT_OFF:
        _cut_off(sys.modules[known])
        _CUT_OFF.add(known)
    return lambda **options: found(**{**spec.kwargs, **options})


def _cut_off(module: ModuleType) -> None:
    """Give a module the games' chance, and let it print nothing."""
    vars(module).setdefault("print", _say_nothing)
    for name, value in list(vars(module).items()):
        if value is random:
            setattr(module, name, _Chance(random, "numbers"))
        elif isinstance(value, ModuleType) and value.__name__ == "numpy":
            setattr(module, name, _Numpy(value))
