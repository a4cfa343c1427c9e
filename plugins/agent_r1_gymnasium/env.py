"""The environment `gymnasium`: any registered environment with discrete actions, played through text.

The start of an episode comes from the task's seed, as `reset(seed=...)` draws it; chance during the episode comes from
the episode's own generator, so that a group meets one start and different luck. Some environments draw more, or less,
from their seed than one expects (docs/worlds.md), and one that uses global generators of `random` or `numpy` cannot be
seeded at all. Observations that are pictures have no text.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from numbers import Real
from typing import Any, Literal

import numpy
from pydantic import Field, field_validator

from agent_r1_core import ComponentConfig, EnvServices, EpisodeError
from agent_r1_gymnasium.world import Outcome, World, WorldConfig

# Here and under a lock, because the modules of an environment may import one another: a first import by several
# episodes at once, each in its own thread, would find some of them half done.
with contextlib.suppress(ImportError):
    import gymnasium
    import gymnasium.envs.toy_text

_IMPORTING = threading.Lock()
_COLOURED = re.compile(r"\x1b\[([\d;]*)m(.*?)\x1b\[0?m", re.DOTALL)
_ESCAPE = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


class GymnasiumConfig(WorldConfig):
    """Options of `gymnasium`."""

    id: str = Field(min_length=1)
    """The name under which the environment is registered, e.g. `CliffWalking-v1`."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the environment, as for `gymnasium.make`."""
    actions: dict[str, int] = Field(default_factory=dict)
    """Names of the actions, e.g. `{up: 0, right: 1}`; empty: their numbers are their names."""
    text: Literal["ansi", "observation"] = "ansi"
    """How a state becomes text: the environment's own rendering for terminals, or the observation written out."""
    max_steps: int | None = Field(None, ge=1)
    """Actions after which the environment's time limit cuts the episode, a limit outside the MDP (LAW 5); null: the
    limit with which it is registered. The run's own budget is `max_turns`."""
    success_reward: float | None = None
    """An episode that comes to its own end with at least this reward for the last action is a success; null: only the
    environment's `info["is_success"]` says so."""

    @field_validator("id")
    @classmethod
    def _no_module(cls, name: str) -> str:
        if ":" in name:
            raise ValueError("may not name a module to import; register the environment in a plugin file and name that")
        return name

    @field_validator("actions")
    @classmethod
    def _readable(cls, actions: dict[str, int]) -> dict[str, int]:
        for name in actions:
            if name != name.strip().lower() or not name or re.search(r"[,;|<>\n]", name):
                raise ValueError(f"cannot name an action {name!r}; take lower case, without , ; | < > and outer spaces")
        return actions


class Gymnasium(World):
    """An episode in an environment of gymnasium."""

    Config = GymnasiumConfig

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._env: gymnasium.Env | None = None
        self._seen: Any = None

    @classmethod
    def unavailable(cls, config: WorldConfig) -> str | None:
        """A sentence if the package gymnasium is missing."""
        if find_spec("gymnasium") is None:
            return "the package gymnasium is missing; run `pip install 'agent-r1[gymnasium]'` or take another one"
        return None

    def make(self, seed: int) -> gymnasium.Env:
        """The environment of an episode whose start the seed draws."""
        config = self.config
        render = {"render_mode": "ansi"} if config.text == "ansi" else {}
        arguments: dict[str, Any] = {**render, **config.kwargs}
        try:
            with _IMPORTING:
                _import(config.id)
            env = gymnasium.make(config.id, config.max_steps, disable_env_checker=True, **arguments)
        except gymnasium.error.Error as error:
            raise EpisodeError(f"gymnasium cannot make {config.id}: {error}") from error
        modes = env.metadata.get("render_modes", [])
        if config.text == "ansi" and "ansi" not in modes:
            raise EpisodeError(f"{config.id} has no rendering as text, only {modes}; set env.text=observation")
        if not isinstance(env.action_space, gymnasium.spaces.Discrete):
            raise EpisodeError(f"{config.id} has the actions {env.action_space}; only discrete ones can have names")
        for name, number in config.actions.items():
            if not env.action_space.contains(number):
                raise EpisodeError(f"{config.id} has no action {number} for {name!r}, only {env.action_space}")
        return env

    def begin(self, seed: int) -> None:
        """Draw the start from the seed; from then on chance is the episode's own."""
        from gymnasium.utils import seeding

        self._env = self.make(seed)
        self._seen, _ = self._env.reset(seed=seed)
        self._outcome = Outcome(success=self.succeeded(0.0, False, {}))
        self._env.unwrapped.np_random = seeding.np_random(self.services.rng.getrandbits(63))[0]

    def move(self, action: int) -> Outcome:
        """One step of the environment."""
        given: Any = self._env.step(action)  # type: ignore[union-attr]
        if not isinstance(given, tuple) or len(given) != 5:
            raise EpisodeError(
                f"{self.config.id}.step() gave {given!r:.80}; return observation, reward, terminated, truncated, info"
            )
        self._seen, reward, terminated, truncated, info = given
        if not isinstance(reward, Real | numpy.ndarray) or numpy.ndim(reward):  # type: ignore[arg-type]
            raise EpisodeError(f"{self.config.id}.step() gave the reward {reward!r:.80}; use a number")
        ended, cut = self._flag("terminated", terminated), self._flag("truncated", truncated)
        return Outcome(float(reward), ended, cut, self.succeeded(float(reward), ended, info))

    def _flag(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool | numpy.bool_):
            raise EpisodeError(f"{self.config.id} gave {name}={value!r:.80}; use True or False")
        return bool(value)

    def succeeded(self, reward: float, terminated: bool, info: Mapping[str, Any]) -> bool | None:
        """Whether the goal is reached; None where the environment does not say."""
        if self.config.success_reward is not None:
            return terminated and reward >= self.config.success_reward
        return self._flag("is_success", info["is_success"]) if "is_success" in info else None

    def show(self) -> str:
        """The rendering, with coloured characters as `[red S]`; or the observation."""
        if self.config.text == "observation":
            return self._seen if isinstance(self._seen, str) else str(_plain(self._seen))
        return plain_text(str(self._env.render()))  # type: ignore[union-attr]

    def actions(self) -> Mapping[str, int]:
        """The names that the recipe gives, or the numbers."""
        if self.config.actions or self._env is None:
            return self.config.actions
        space: Any = self._env.action_space
        return {str(number): number for number in range(int(space.start), int(space.start + space.n))}

    def close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            env.close()


@functools.cache
def _import(name: str) -> None:
    """Import the module of an environment."""
    entry_point = gymnasium.spec(name).entry_point
    if isinstance(entry_point, str):
        gymnasium.envs.registration.load_env_creator(entry_point)


def plain_text(rendering: str) -> str:
    """A rendering for terminals without its escapes: a coloured character is in brackets behind its colour.

    Environments mark by colour what their letters do not say, such as the player; without it a model cannot know.
    """
    return _ESCAPE.sub("", _COLOURED.sub(_named, rendering)).rstrip("\n")


def _named(match: re.Match[str]) -> str:
    codes = [int(code) for code in match[1].split(";") if code]
    colour = next((_COLOURS[code % 10] for code in codes if code // 10 in (3, 4) and code % 10 < 8), None)
    return f"[{colour} {match[2]}]" if colour else match[2]


def _plain(value: Any) -> Any:
    """An observation without numpy's types, whose text names them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_plain(item) for item in value)
    return value.tolist() if hasattr(value, "tolist") else value
