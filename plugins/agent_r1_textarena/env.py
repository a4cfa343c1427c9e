"""The environment `textarena`: a game of TextArena, alone or with others.

The task's seed draws the start and all chance of a game, and what a script does before the policy acts, so that the
episodes of a group begin alike; only the players differ. An action is the policy's text without its thoughts, in which
the game looks for its own form, mostly `[...]`. One invalid action is answered and may be repeated; a second one in a
row ends the game.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from random import Random
from typing import Any, ClassVar, Literal, cast

from pydantic import Field, field_validator

from agent_r1_core import (
    Action,
    ComponentConfig,
    ConfigError,
    EnvConfig,
    EnvServices,
    EpisodeError,
    Metric,
    Observation,
    Outcome,
    Step,
    Task,
    ToolEnv,
)
from agent_r1_core.chat import clip_text, without_thinking
from agent_r1_textarena.game import Game, refusal
from agent_r1_textarena.moves import random_move

Kind = Literal["prompt", "action", "description", "message", "board", "admin"]
_KINDS: dict[str, Kind] = {
    "PROMPT": "prompt",
    "PLAYER_ACTION": "action",
    "GAME_ACTION_DESCRIPTION": "description",
    "GAME_MESSAGE": "message",
    "GAME_BOARD": "board",
    "GAME_ADMIN": "admin",
}
_LOST = -1.0
"""What TextArena gives for a game that ends on an invalid action, where a game does not say otherwise."""


class TextArenaConfig(EnvConfig):
    """Options of `textarena`."""

    id: str = Field(min_length=1)
    """The game, e.g. `TicTacToe-v0`."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the game, e.g. `{piles: [3, 4]}`."""
    opponent: str | None = None
    """Who plays the other players. null: the game is for one; `self`: the policy, which learns from every player;
    `random`: one of the moves that the game lists, or that Nim allows; `start`: the model that the run began with;
    `package.module:function`: a function from what the player reads and a `random.Random` to an action; else a model's
    name, as in `model.name`, whose weights never change. The policy then plays the player whose number is the
    task's seed modulo `players`."""
    players: int = Field(2, ge=2)
    """How many play, where there is an opponent."""
    show: tuple[Kind, ...] = tuple(_KINDS.values())
    """What a player reads: the game's rules, what other players write, what the game says that they did, its messages,
    the newest board, and what was wrong."""
    rules: str | None = None
    """What stands in place of the game's own rules, with {player} for the player's number; null: the game's own."""
    invalid_reward: float | None = None
    """What a game for one player is worth that ends on an invalid action; null: what the game says, which in some games
    is a part of the full reward, and -1 where that is no number."""
    illegal_penalty: float = Field(0.0, ge=0)
    """Taken from the reward of a turn with an invalid action."""
    max_turns: int = Field(default=30, ge=1)
    """Actions that each player may take."""
    max_characters: int = Field(4000, ge=1)
    """Most characters of an observation; the rest is cut and marked."""

    @field_validator("id")
    @classmethod
    def _plain(cls, name: str) -> str:
        if name.endswith(("-raw", "-train")):
            raise ValueError(f"is a variant; take {name.rpartition('-')[0]}, and say by `show` what is read")
        return name


class TextArena(ToolEnv):
    """An episode is a game."""

    Config = TextArenaConfig
    metrics: ClassVar = (
        Metric("illegal", "share of turns with an invalid action", better="lower"),
        Metric("drawn", "share of games that nobody won, of those that came to their end"),
        Metric("first_won", "share of games that the player won who acted first, of those that came to their end"),
    )

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._game: Game | None = None
        self._acted = False
        self._script: Callable[[str, Random], str] | None = None
        self._numbers: dict[int, int] = {}
        """The numbers of the players who are no script, by their seats in the game."""
        self._seat = self._first = 0
        self._opening = Random()

    @classmethod
    def unavailable(cls, config: TextArenaConfig) -> str | None:
        """A sentence if the package is missing, or the game cannot be played."""
        if find_spec("textarena") is None:
            return "the package textarena is missing; run `pip install 'agent-r1[textarena]'` or take another one"
        return refusal(config.id)

    @classmethod
    def frozen_model(cls, config: TextArenaConfig) -> str | None:
        """The opponent, where it is a model."""
        named = config.opponent or "self"
        return None if named in ("self", "random") or ":" in named else named

    @classmethod
    def programs(cls, config: TextArenaConfig) -> dict[str, str]:
        """The opponent, where it is a function."""
        named = config.opponent or ""
        return {"opponent": f"function {named}"} if ":" in named else {}

    @classmethod
    def idle_options(cls, config: TextArenaConfig) -> dict[str, str]:
        """Options without effect."""
        if config.opponent is None:
            return {"players": "without env.opponent a game is for one player"}
        return {"invalid_reward": "with env.opponent an invalid action loses the game"}

    @classmethod
    def uses_tools(cls) -> bool:
        """Actions are text, not calls."""
        return False

    def instructions(self) -> str:
        """As the game's own rules say."""
        return "Write what the game's rules ask for, mostly in square brackets."

    def reset(self, task: Task) -> Observation:
        """The rules, and the game as the first player sees it."""
        config, named = self.config, self.config.opponent
        seed = abs(task.seed) if task.seed is not None else zlib.crc32(task.id.encode())
        self._game = Game(config.id, config.kwargs, config.players if named else 1, seed)
        self._first, self._opening = -1, Random(seed)
        if named == "random":
            self._script = random_move
        elif named and ":" in named:
            self._script = _function(named)
        if named not in (None, "self"):
            self._numbers[seed % config.players] = 0
        observation = self._next()
        if observation is None:
            raise EpisodeError(f"{config.id} ended before the policy acted")
        return observation

    def step(self, action: Action) -> Step:
        """Act, and let scripts act until somebody else is next."""
        game, seat = self._played, self._seat
        self._acted, illegal = True, game.act(without_thinking(action.whole))
        errors = ["the game calls the action invalid"] if illegal else []
        penalty = self.config.illegal_penalty * illegal
        observation = None if game.over else self._next()
        if observation is not None:
            return Step(observation, reward=0.0 - penalty, errors=errors, info={"illegal": int(illegal)})
        outcomes = self._outcomes()
        own = outcomes.pop(self._numbers[seat])
        info = {"illegal": int(illegal), **own.info}
        return Step(
            reward=own.reward - penalty, terminated=True, success=own.success, errors=errors, info=info, others=outcomes
        )

    def _next(self) -> Observation | None:
        """What the next player reads who is no script; None: the game is over."""
        while True:
            seat, messages = self._played.look()
            self._first = seat if self._first < 0 else self._first
            if self._script is None or seat in self._numbers:
                break
            chance = self.services.rng if self._acted else self._opening
            move = self._script(self._text(seat, messages), chance)
            if not isinstance(move, str):
                raise ConfigError(f"env.opponent={self.config.opponent} gave {move!r:.80}; return an action as text")
            self._played.act(move)
            if self._played.over:
                return None
        self._seat = seat
        number = self._numbers.setdefault(seat, len(self._numbers))
        text = clip_text(self._text(seat, messages), self.config.max_characters)
        key = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        frozen = number > 0 and self.config.opponent != "self"
        return Observation([{"role": "user", "content": text}], state_key=key, player=number, frozen=frozen)

    def _text(self, seat: int, messages: list[tuple[int, str, str]]) -> str:
        """What a player reads; of several boards the newest."""
        boards = [place for place, (_, _, kind) in enumerate(messages) if kind == "GAME_BOARD"]
        lines = []
        for place, (speaker, text, kind) in enumerate(messages):
            outdated = kind == "GAME_BOARD" and place != boards[-1]
            if _KINDS[kind] not in self.config.show or outdated or (kind == "PLAYER_ACTION" and speaker == seat):
                continue
            if kind == "PROMPT" and self.config.rules is not None:
                lines.append(self.config.rules.replace("{player}", str(seat)))
            else:
                lines.append(f"Player {speaker}: {text}" if kind == "PLAYER_ACTION" else text)
        return "\n".join(line.strip("\n") for line in lines if line)

    def _outcomes(self) -> dict[int, Outcome]:
        """What the game means for each player who is no script."""
        rewards, about = self._played.result
        alone = self.config.opponent is None
        worth = {seat: self._worth(rewards.get(seat), about.get(seat, {}), alone) for seat in self._numbers}
        best = {seat: value for seat, value in rewards.items() if isinstance(value, Real) and float(value) > 0}
        info: dict[str, Any] = {"result": str(about.get(self._seat, {}).get("reason") or "")}
        if not alone:
            info |= {"drawn": int(not best), "first_won": int(self._first in best)}
        return {
            number: Outcome(worth[seat], worth[seat] >= 1 if alone else worth[seat] > 0, info)
            for seat, number in self._numbers.items()
        }

    def _worth(self, reward: Any, about: dict[str, Any], alone: bool) -> float:
        invalid = isinstance(reward, str) or bool(about.get("invalid_move"))
        if alone and invalid and self.config.invalid_reward is not None:
            return float(self.config.invalid_reward)
        if isinstance(reward, str):
            return _LOST
        if not isinstance(reward, Real):
            raise EpisodeError(f"{self.config.id} ended and gave the reward {reward!r}; take another game")
        return float(reward)

    @property
    def _played(self) -> Game:
        if self._game is None:
            raise EpisodeError("environment textarena got an action before its reset")
        return self._game


def _function(named: str) -> Callable[[str, Random], str]:
    module, _, function = named.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"env.opponent={named} cannot be imported: {error}; install the module, or put its folder on PYTHONPATH"
        ) from error
    if not callable(found):
        raise ConfigError(f"env.opponent={named} is no function; name one that is given a text and a random.Random")
    return cast(Callable[[str, Random], str], found)
