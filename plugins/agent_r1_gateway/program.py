"""Programs: what plays an episode, such as a Python function, and says how it ended."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from numbers import Real
from typing import Any

from agent_r1_core import EpisodeError
from agent_r1_core.errors import describe_error

_LOG = logging.getLogger(__name__)
_noted: set[str] = set()
"""What the log has said of results."""


@dataclass(frozen=True)
class Episode:
    """What a function that plays an episode gets."""

    task: dict[str, Any]
    """`id`, `prompt`, `seed`, and with `answers: true` also `answers` and `metadata`."""
    base_url: str
    """For clients of OpenAI's API; it ends with `/v1`."""
    anthropic_base_url: str
    api_key: str
    reward: Callable[[float], None]
    """Reports a reward for the last turn."""


@dataclass(frozen=True)
class Result:
    """What a program said in the end."""

    reward: float | None = None
    answer: str | None = None
    success: bool | None = None
    components: dict[str, float] = field(default_factory=dict)
    """Other numbers, which become metrics."""
    summed: bool = False
    """The reward is their sum."""
    unread: str = field(default="", compare=False)
    """The last line that a command printed, where it is no JSON."""

    @classmethod
    def of(cls, value: Any) -> Result:
        """From None, a number, a text, which is the answer, or an object with `reward`, `answer`, `success` and other
        numbers, whose sum is the reward where it has neither `reward` nor `answer`.

        Raises:
            EpisodeError: it is none of these, one of its numbers, or its `reward`, is no finite number, or its answer
                neither text nor number.
        """
        if value is None:
            return cls()
        if isinstance(value, str):
            return cls(answer=value)
        if not isinstance(value, Mapping):
            return cls(_number(value, "is", "give a number, a text or an object"))
        numbers = {
            str(key): _number(one, f"has the {key}", "give a finite number, or leave it out")
            for key, one in value.items()
            if key == "reward" or (isinstance(one, Real) and key not in ("answer", "success"))
        }
        reward, answer, success = numbers.pop("reward", None), value.get("answer"), value.get("success")
        if not isinstance(answer, str | Real | None):
            raise EpisodeError(f"the program's result has the answer {answer!r:.80}; give a text or a number")
        summed = bool(numbers) and reward is None and "answer" not in value
        return cls(
            sum(numbers.values()) if summed else reward,
            None if answer is None else str(answer),
            None if success is None else bool(success),
            numbers,
            summed,
        )


def note_slip(result: Result) -> None:
    """Log once what may be a slip of the program that only looks like a bad policy."""
    if result.summed:
        names = ", ".join(result.components)
        sentence = f"the program's result has no reward, so the sum of {names} counts; give a reward or an answer"
    elif result == Result():
        sentence = (
            "a program ended without a reward or an answer, so its episode has none: a command prints its result as "
            "JSON on its last line of standard output or writes it into the file AGENT_R1_RESULT, a function returns it"
        ) + (f"; the last line was {result.unread!r:.80}" if result.unread else "")
    else:
        return
    note_once("sum" if result.summed else "nothing", sentence)


def note_once(what: str, sentence: str) -> None:
    """Log a sentence, unless one of the same kind was logged."""
    if what not in _noted:
        _noted.add(what)
        _LOG.warning(sentence)


Ended = Callable[[Result | Exception], None]


class Program:
    """One that plays an episode. A function prints into nothing that is kept, and cannot be ended."""

    async def start(self, task: dict[str, Any], address: str, key: str, ended: Ended) -> None:
        """Begin; `ended` is called once, in any thread."""
        raise TypeError(f"{type(self).__name__} defines no start(task, address, key, ended); add one")

    def output(self) -> str:
        """What it printed since the last call, bounded."""
        return ""

    async def stop(self) -> None:
        """End it, whatever it is doing."""


class Function(Program):
    """A Python function in a thread of its own, an async one with an event loop of its own.

    Python cannot end a thread: a function that hangs keeps it, and its requests are refused.
    """

    def __init__(self, function: Callable[[Episode], Any], reward: Callable[[float], None]) -> None:
        self._function = function
        self._reward = reward

    async def start(self, task: dict[str, Any], address: str, key: str, ended: Ended) -> None:
        play(self._function, Episode(task, f"{address}/v1", address, key, self._reward), ended)


def play(function: Callable[[Episode], Any], episode: Episode, ended: Ended) -> None:
    """Call the function in a thread of its own; `ended` is called there."""

    def run() -> None:
        try:
            value = function(episode)
            ended(Result.of(asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value))
        except EpisodeError as error:
            ended(error)
        except BaseException as error:
            ended(EpisodeError(f"the function failed with {_described(error)}{_hint(error)}"))

    threading.Thread(target=run, name="agent-r1 program", daemon=True).start()


def function_named(name: str) -> Callable[[Episode], Any]:
    """The function `package.module:name`.

    Raises:
        EpisodeError: there is none.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            found = f"there is no module {error.name}; name its folder in PYTHONPATH, or install it"
            raise EpisodeError(f"the function {name} cannot be imported: {found}") from error
        raise EpisodeError(f"the function {name} cannot be imported ({_described(error)})") from error
    if not callable(found):
        raise EpisodeError(f"{name} is no function; name one")
    return found


async def _awaited(value: Any) -> Any:
    return await value


def _described(error: BaseException) -> str:
    """As `describe_error`, on one line, without the frames up to this file's last one: it called the user's code."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == __file__:
            error.__traceback__ = trace.tb_next
        trace = trace.tb_next
    return " ".join(describe_error(error).split())


def _hint(error: BaseException) -> str:
    loops = ("Event loop is closed", "bound to a different event loop", "attached to a different loop")
    if isinstance(error, RuntimeError) and any(words in str(error) for words in loops):
        return "; each episode has an event loop of its own: make async clients in the function, not for all episodes"
    return ""


def _number(value: Any, what: str, instead: str) -> float:
    with suppress(OverflowError):
        if isinstance(value, Real) and math.isfinite(value):
            return float(value)
    raise EpisodeError(f"the program's result {what} {value!r:.80}; {instead}")
