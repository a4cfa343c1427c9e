"""Programs: what plays an episode, a process of its own or a Python function; both say how they ended."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from agent_r1_core import EpisodeError
from agent_r1_core.errors import describe_error
from agent_r1_core.opening import NotOpened, read_text
from agent_r1_core.trajectory import question

_GRACE = 2.0
"""Seconds that a process has between SIGTERM and SIGKILL."""
_DRAIN = 0.5
"""Seconds for what it printed last, where a child that it left behind holds the pipe."""


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

    reward: float = 0.0
    answer: str | None = None
    success: bool | None = None
    components: dict[str, float] = field(default_factory=dict)
    """Other numbers, which become metrics."""

    @classmethod
    def of(cls, value: Any) -> Result:
        """From None, a number, or an object: `reward`, or else the sum of its other numbers; `answer`; `success`.

        Raises:
            EpisodeError: it is none of these.
        """
        if value is None:
            return cls()
        if isinstance(value, bool) or (isinstance(value, int | float) and math.isfinite(value)):
            return cls(float(value))
        if isinstance(value, str):
            return cls(answer=value)
        if not isinstance(value, Mapping):
            raise EpisodeError(f"the program's result is {value!r:.80}; give a number, a text or an object")
        numbers = {str(key): float(one) for key, one in value.items() if _is_number(one) and key != "success"}
        answer, success = value.get("answer"), value.get("success")
        reward = numbers.pop("reward") if "reward" in numbers else sum(numbers.values())
        return cls(reward, None if answer is None else str(answer), None if success is None else bool(success), numbers)


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


class Process(Program):
    """A command: its folder is temporary, and its whole process group ends with the episode."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], most_output: int) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._output = Output(most_output)
        self._folder = Path(tempfile.mkdtemp(prefix="agent-r1-program-"))
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, task: dict[str, Any], address: str, key: str, ended: Ended) -> None:
        text = json.dumps(task, ensure_ascii=False)
        where = self._folder / "task.json"
        where.write_text(text, encoding="utf-8")
        given = {"{task}": text, "{prompt}": question(task["prompt"])}
        own = {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": key,
            "AGENT_R1_GATEWAY": address,
            "AGENT_R1_KEY": key,
            "AGENT_R1_TASK": str(where),
            "AGENT_R1_RESULT": str(self._folder / "result.json"),
        }
        reading, writing = os.pipe()  # not the library's: its wait() would wait for whoever inherits the pipe
        try:
            with where.open("rb") as stdin:
                self._process = await asyncio.create_subprocess_exec(
                    *(re.sub(r"\{task\}|\{prompt\}", lambda found: given[found[0]], part) for part in self._command),
                    stdin=stdin,
                    stdout=writing,
                    stderr=writing,
                    cwd=self._folder,
                    env={**os.environ, **own, **self._environment},
                    start_new_session=True,
                )
        except BaseException as error:
            os.close(reading)
            if isinstance(error, OSError | ValueError):
                raise EpisodeError(f"the program {self._command[0]} cannot be started: {error}") from error
            raise
        finally:
            os.close(writing)
        self._watching = asyncio.create_task(self._watch(self._process, reading, ended))

    def output(self) -> str:
        return self._output.take()

    async def stop(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _GRACE)
            self._signal(signal.SIGKILL)
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    async def _watch(self, process: asyncio.subprocess.Process, printed: int, ended: Ended) -> None:
        """Keep what is printed, and report the end."""
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(printed, "rb", 0))
        reading = asyncio.create_task(self._read(reader))
        try:
            code = await process.wait()
            await asyncio.wait({reading}, timeout=_DRAIN)
            try:
                ended(self._result(code))
            except Exception as error:
                ended(error)
        finally:
            transport.close()
            reading.cancel()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(2**16):
            self._output.add(piece.decode("utf-8", "replace"))

    def _result(self, code: int) -> Result:
        if code != 0:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise EpisodeError(f"the program {how}: {self._output.last() or 'it printed nothing'}")
        file = self._folder / "result.json"
        written = os.path.lexists(file)
        try:
            return Result.of(json.loads(read_text(file) if written else self._output.last()))
        except NotOpened as error:
            raise EpisodeError(f"the program's result cannot be read: {error}") from error
        except (ValueError, RecursionError):
            if written:
                raise EpisodeError("the program's result file holds no JSON; write a number or an object") from None
            return Result()


class Output:
    """What a program prints, without limit in time, and bounded in memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._new, self._tail = "", ""

    def add(self, text: str) -> None:
        self._new = (self._new + text)[-self._most :]
        self._tail = (self._tail + text)[-self._most :]

    def take(self) -> str:
        """What is new."""
        new, self._new = self._new, ""
        return new

    def last(self) -> str:
        """The last line that says something."""
        return next((line.strip() for line in reversed(self._tail.splitlines()) if line.strip()), "")


class Function(Program):
    """A Python function, sync or async, in a thread of its own.

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
        except BaseException as error:
            ended(EpisodeError(f"the function failed with {describe_error(error)}"))

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
        raise EpisodeError(f"the function {name} cannot be imported ({describe_error(error)})") from error
    if not callable(found):
        raise EpisodeError(f"{name} is no function; name one")
    return found


async def _awaited(value: Any) -> Any:
    return await value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
