"""Helper: a program beside the run that answers lines of JSON, for packages that must stay out of this process.

Such a package may need another Python, use global random generators, or run for ever. The helper gets lines of
`{"id", "do", ...}` on its standard input and answers `{"id", "value"}` or `{"id", "error"}` on its standard output, in
any order. It ends with its input, so that it never outlives the run. It sees few of our environment variables.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from itertools import count
from typing import Any

_PASSED = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
_LONGEST = 2**28
"""Bytes of one reply."""


class HelperError(Exception):
    """The helper answered that it cannot do what was asked; the text is its own."""


class HelperGone(Exception):
    """The helper ended, or was killed, before it answered; the next question starts another one."""


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    asked: dict[int, Future[Any]] = field(default_factory=dict)


class Helper:
    """A helper and its process; it may be asked from several threads at once."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, shows_errors: bool = False
    ) -> None:
        """`shows_errors`: its standard error is ours."""
        self._command = list(command)
        self._environment = {name: os.environ[name] for name in _PASSED if name in os.environ} | dict(environment or {})
        self._shows_errors = shows_errors
        self._numbers = count()
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def ask(self, do: str, timeout: float, **arguments: Any) -> Any:
        """What the helper answers; it is started where it does not run.

        Raises:
            HelperError: it says why it cannot.
            HelperGone: it ended. One that does not answer in time is killed.
        """
        future = self.begin(do, **arguments)
        running = self._running
        try:
            return future.result(timeout)
        except TimeoutError:
            if running is not None:
                self._kill(running)
            raise HelperGone(f"it did not answer within {timeout:g} seconds and was killed") from None

    def begin(self, do: str, **arguments: Any) -> Future[Any]:
        """Ask, and wait for nothing: the answer, or what `ask` raises, is in the future once it is there."""
        number, future = next(self._numbers), Future[Any]()
        line = json.dumps({"id": number, "do": do, **arguments}).encode() + b"\n"
        with self._lock:
            running = self._running or self._start()
            running.asked[number] = future
            with contextlib.suppress(BrokenPipeError):  # its reader will say that it is gone
                assert running.process.stdin is not None
                running.process.stdin.write(line)
                running.process.stdin.flush()
        return future

    def close(self) -> None:
        """Kill the process, if there is one, and what it has started."""
        if running := self._running:
            self._kill(running)
            running.process.wait()

    def _kill(self, running: _Running) -> None:
        if running.process.returncode is None:  # until somebody waits for it, its number is nobody else's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(running.process.pid, signal.SIGKILL)
        with self._lock:
            if self._running is running:
                self._running = None

    def _start(self) -> _Running:
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if self._shows_errors else subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            raise HelperGone(f"{self._command[0]} cannot be started: {error.strerror}") from error
        self._running = _Running(process)
        threading.Thread(target=self._read, args=(self._running,), name="agent-r1-helper", daemon=True).start()
        return self._running

    def _read(self, running: _Running) -> None:
        """Hand on its answers until it ends."""
        process, asked = running.process, running.asked
        assert process.stdout is not None
        assert process.stdin is not None
        while (line := process.stdout.readline(_LONGEST)).endswith(b"\n"):
            try:
                reply = json.loads(line)
                future = asked.pop(reply["id"], None)
            except (ValueError, LookupError):
                break
            if future is not None:
                _settle(future, reply)
        self._kill(running)
        status = process.wait()
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        for future in asked.values():  # nobody asks it any more
            with contextlib.suppress(InvalidStateError):
                future.set_exception(HelperGone(f"it ended with status {status}"))


def _settle(future: Future[Any], reply: Mapping[str, Any]) -> None:
    with contextlib.suppress(InvalidStateError):  # nobody waits any longer
        if "error" in reply:
            future.set_exception(HelperError(reply["error"]))
        else:
            future.set_result(reply["value"])
