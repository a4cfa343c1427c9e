"""Process: a command that plays an episode."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import tempfile
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_r1_core import EpisodeError
from agent_r1_core.opening import NotOpened, read_text
from agent_r1_core.trajectory import question
from agent_r1_gateway import reaper
from agent_r1_gateway.program import Ended, Program, Result

_GRACE = 2.0
"""Seconds that a process has between SIGTERM and SIGKILL."""
_DRAIN = 0.5
"""Seconds for what it printed last, where a child that it left behind holds the pipe."""
_LONGEST = 2**20
"""Characters of a result that it prints."""
_FRAME = re.compile(r' +File "(.+)", line (\d+)')
"""Of a traceback that Python printed."""


class Process(Program):
    """A command: its folder is temporary, and its whole process group ends with the episode."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], most_output: int) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._output = Output(most_output)
        self._printed = LastLine()
        """On standard output."""
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
        pipes = [os.pipe() for _ in range(2)]  # not the library's: its wait() would wait for whoever inherits the pipe
        try:
            with where.open("rb") as stdin:
                self._process = await asyncio.create_subprocess_exec(
                    *(re.sub(r"\{task\}|\{prompt\}", lambda found: given[found[0]], part) for part in self._command),
                    stdin=stdin,
                    stdout=pipes[0][1],
                    stderr=pipes[1][1],
                    cwd=self._folder,
                    env={**os.environ, **own, **self._environment},
                    start_new_session=True,
                )
        except BaseException as error:
            for reading, _ in pipes:
                os.close(reading)
            if isinstance(error, OSError | ValueError):
                raise EpisodeError(f"the program {self._command[0]} cannot be started: {error}") from error
            raise
        finally:
            for _, writing in pipes:
                os.close(writing)
        reaper.lives(self._process.pid, str(self._folder))
        self._watching = asyncio.create_task(self._watch(self._process, pipes, ended))

    def output(self) -> str:
        return self._output.take()

    async def stop(self) -> None:
        if self._process is not None:
            reaper.signal_session(self._process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _GRACE)
            reaper.signal_session(self._process.pid, signal.SIGKILL)
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        if self._process is not None:
            reaper.ended(self._process.pid)

    async def _watch(self, process: asyncio.subprocess.Process, pipes: Sequence[tuple[int, int]], ended: Ended) -> None:
        """Keep what is printed, and report the end."""
        kept: tuple[tuple[Output | LastLine, ...], ...] = ((self._output, self._printed), (self._output,))
        both = zip(pipes, kept, strict=True)
        reading = [asyncio.create_task(self._read(pipe, outputs)) for (pipe, _), outputs in both]
        try:
            code = await process.wait()
            await asyncio.wait(reading, timeout=_DRAIN)
            try:
                ended(self._result(code))
            except Exception as error:
                ended(error)
        finally:
            for one in reading:
                one.cancel()

    async def _read(self, pipe: int, outputs: Sequence[Output | LastLine]) -> None:
        reader, decoder = asyncio.StreamReader(), getincrementaldecoder("utf-8")("replace")
        protocol = asyncio.StreamReaderProtocol(reader)
        opened = os.fdopen(pipe, "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, opened)
        try:
            while piece := await reader.read(2**16):
                text = decoder.decode(piece)
                for output in outputs:
                    output.add(text)
        finally:
            transport.close()

    def _result(self, code: int) -> Result:
        if code != 0:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise EpisodeError(f"the program {how}: {self._output.why() or 'it printed nothing'}")
        file = self._folder / "result.json"
        written = os.path.lexists(file)
        try:
            return Result.of(json.loads(read_text(file) if written else self._printed.read()))
        except NotOpened as error:
            raise EpisodeError(f"the program's result cannot be read: {error}") from error
        except (ValueError, RecursionError):
            if written:
                raise EpisodeError("the program's result file holds no JSON; write a number or an object") from None
            return Result(unread=self._printed.read())


class LastLine:
    """The last line of a program's that says something, which is its result."""

    def __init__(self) -> None:
        self._whole = self._begun = ""

    def add(self, text: str) -> None:
        *lines, begun = (self._begun + text).split("\n")
        self._whole = next((line for line in reversed(lines) if line.strip()), self._whole)
        self._begun = begun[: _LONGEST + 1]

    def read(self) -> str:
        """The line; an EpisodeError where it is too long."""
        line = self._begun if self._begun.strip() else self._whole
        if len(line) > _LONGEST:
            raise EpisodeError(
                f"the program's last line has more than {_LONGEST} characters; write the result to the file that "
                "AGENT_R1_RESULT names"
            )
        return line.strip().rpartition("\r")[2]  # a bar of progress may stand before it


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

    def why(self) -> str:
        """What Python raised last, and the innermost line outside of libraries; else the last line."""
        raised, where, inside = "", "", False
        for line in self._tail.splitlines():
            if frame := _FRAME.match(line):
                where, inside = where if inside else "", True
                if not frame[1].startswith("<") and "/lib/python" not in frame[1]:
                    where = f" ({Path(frame[1]).name}, line {frame[2]})"
            elif inside and line[:1].strip():
                raised, inside = f"{line}{where}", False
        return raised or self.last()
