"""The environment `textworld`: a text adventure of TextWorld, in which the policy writes commands.

TextWorld plays by a library under the GPL-2.0, which must never be part of this process: a Python of its own has both,
and plays all games in one process there. A process that ended takes its games with it, and their episodes fail.
"""

from __future__ import annotations

import functools
import hashlib
import re
import uuid
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from agent_r1_core import (
    Action,
    ComponentConfig,
    EnvConfig,
    EnvServices,
    EpisodeError,
    LocalPath,
    Markup,
    Metric,
    Observation,
    Step,
    Task,
    ToolEnv,
)
from agent_r1_core.chat import clip_text, split_tagged, without_thinking
from agent_r1_core.helper import Helper, HelperError, HelperGone
from agent_r1_textworld.games import OPTIONS, game_file, maker, option_name

_CUT = "the reply was cut off before a command; be shorter"
_NONE = Markup("no command; write it between <answer> and </answer>")
_UNREADABLE = (
    "no game reads this command; write at most 100 characters, all of them printable ASCII, "
    "and nothing to save, restore, record or quit a game"
)
_READABLE = re.compile("[ -~]{1,100}")
"""Others hang or crash the interpreter, and with it every game of the process."""
_OF_FILES = re.compile(
    r"\b(save|restore|restart|quit|q|verify|(no|un)?script|transcrip\w*|recording\w*|replay|commands?)\b", re.IGNORECASE
)
"""Words by which a game writes files, or reads those of others, anywhere in a line; it reads nine letters of each."""


class TextWorldConfig(EnvConfig):
    """Options of `textworld`."""

    movable = frozenset({"python"})

    python: LocalPath = Field("envs/textworld/bin/python", validate_default=True)
    """The Python of an environment with `textworld` 1.7 or later."""
    game: str = Field("tw-coin_collector", pattern=r"^[a-z][a-z_-]*$")
    """What `tw-make` makes: `tw-simple`, `tw-coin_collector`, `tw-treasure_hunter`, `tw-cooking` or `custom`."""
    options: dict[str, bool | int | str] = Field(default={"level": 1})
    """Its options as `tw-make` names them, e.g. `{level: 5}`; true for those without a value."""
    commands: bool = True
    """Whether the policy reads which commands are possible."""
    rules: str | None = None
    """What the first message says before the game; null: how to write a command; empty: nothing."""
    max_characters: int = Field(4000, ge=1)
    """Most characters of what the game says; the rest is cut and marked."""
    making_seconds: float = Field(120.0, gt=0)
    """For making one game, which is kept."""
    seconds: float = Field(30.0, gt=0)
    """For one command."""

    @field_validator("options")
    @classmethod
    def _of_games(cls, options: dict[str, bool | int | str]) -> dict[str, bool | int | str]:
        for name, value in options.items():
            if option_name(name) not in OPTIONS:
                raise ValueError(f"may not have {name!r}; the options of games are {', '.join(OPTIONS)}")
            if isinstance(value, str) and not re.fullmatch(r"\w+", value):
                raise ValueError(f"may not have {value!r} as {name}; give a word of letters, digits and _")
        return options


@functools.cache
def helper(python: str) -> Helper:
    """One for all that name the same Python."""
    return Helper([python, str(Path(__file__).with_name("helper") / "serve.py")], {"PYTHONHASHSEED": "0"})


class TextWorld(ToolEnv):
    """One game, the same for each task's seed. A turn's reward is its part of the game's score, which is 1 in all."""

    Config = TextWorldConfig
    metrics: ClassVar = (
        Metric("illegal", "share of turns without a command, or with one that the game does not know", better="lower"),
    )

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._episode = uuid.uuid4().hex
        self._begun = False
        self._score = 0
        self._commands: list[str] = []

    @classmethod
    def programs(cls, config: Any) -> dict[str, str]:
        """What it runs beyond the run."""
        return {"python": f"runs {config.python}"}

    @classmethod
    def unavailable(cls, config: Any) -> str | None:
        """A sentence where there is no such Python, or none with textworld."""
        missing = [path for path in (Path(config.python), maker(config.python)) if not path.exists()]
        if not missing:
            return None
        return (
            f"there is no {missing[0]}; make that environment as `Text adventures` in docs/worlds.md says, or set "
            "python to one that has textworld"
        )

    @classmethod
    def uses_tools(cls) -> bool:
        """Actions are commands, not calls."""
        return False

    def instructions(self) -> str:
        """How to write a command."""
        return Markup.of(["Write one command as ", Markup("<answer>"), "look", Markup("</answer>"), "."])

    def reset(self, task: Task) -> Observation:
        """What the game wants, and where it begins."""
        config = self.config
        seed = abs(task.seed) if task.seed is not None else zlib.crc32(task.id.encode())
        game = game_file(config.python, config.game, config.options, seed, config.making_seconds)
        self._begun = True
        told = self._ask("begin", game=str(game.absolute()))
        rules = self.instructions() if config.rules is None else Markup(config.rules)
        return self._shown(told, rules)

    def step(self, action: Action) -> Step:
        """Give the game the command between the last `<answer>` tags."""
        answers, _ = split_tagged(without_thinking(action.whole), "answer")
        command = " ".join(answers[-1].split()) if answers else ""
        if not _READABLE.fullmatch(command) or _OF_FILES.search(command):
            error = _UNREADABLE if command else _CUT if action.cut else _NONE
            said: Any = Markup.of(["Error: ", error, "."])
            return Step(Observation([{"role": "user", "content": said}]), errors=[error], info={"illegal": 1})
        illegal = command not in self._commands
        told = self._ask("act", command=command)
        reward, self._score = (told["score"] - self._score) / told["most"], told["score"]
        return Step(
            Observation() if told["done"] else self._shown(told),
            reward=reward,
            terminated=told["done"],
            success=told["won"],
            info={"illegal": int(illegal)},
        )

    def close(self) -> None:
        """Forget the game."""
        if self._begun:
            with suppress(EpisodeError):  # its process has ended
                self._ask("end")

    def _ask(self, do: str, **arguments: Any) -> Any:
        try:
            return helper(self.config.python).ask(do, self.config.seconds, episode=self._episode, **arguments)
        except (HelperError, HelperGone) as error:
            raise EpisodeError(f"textworld cannot play on: {error}") from error

    def _shown(self, told: dict[str, Any], before: str = "") -> Observation:
        self._commands = told["commands"]
        text = told["text"]
        if self.config.commands:
            text += f"\nCommands: {', '.join(self._commands)}"
        content = clip_text(text, self.config.max_characters)
        key = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        shown = Markup.of([before, "\n", content]) if before else content
        return Observation([{"role": "user", "content": shown}], state_key=key)
