"""Runs a command of agent-r1 in a process of its own, which does not outlive this one."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_r1_core.errors import RunError
from agent_r1_core.opening import open_to_read, open_to_write
from agent_r1_core.runs.files import naming

_CALL = "from agent_r1_cli.main import main; main()"
_LOOK_SECONDS = 0.5
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux; elsewhere a killed matrix leaves its running cell to end by itself."""
_TAIL = 4096


class CellProcess:
    """Executes commands; while one runs, `look` is told the last line of its log."""

    def __init__(self, look: Callable[[str], None]) -> None:
        self._look = look

    def __call__(self, command: Sequence[str], log: Path) -> str:
        """Run a command; returns its stdout, adds its stderr to `log`.

        Raises:
            RunError: it failed; the text is its last sentence.
            KeyboardInterrupt: this process was interrupted; the command has saved its work and ended.
        """
        with naming(log):
            said = os.fdopen(open_to_write(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")
        with said:
            said.write(f"$ agent-r1 {shlex.join(command)}\n".encode())
            said.flush()
            with subprocess.Popen(
                [sys.executable, "-P", "-c", _CALL, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the command in order
                preexec_fn=_die_with_parent(),
            ) as process:
                answer = self._wait(process, log)
        if process.returncode:
            raise RunError(f"{_last_line(log).removeprefix('error: ')} (see {log})")
        return answer.decode()

    def _wait(self, process: subprocess.Popen[bytes], log: Path) -> bytes:
        try:
            while True:
                try:
                    return process.communicate(timeout=_LOOK_SECONDS)[0]
                except subprocess.TimeoutExpired:
                    self._look(_last_line(log))
        except KeyboardInterrupt:
            process.terminate()
            try:
                process.communicate()
            except KeyboardInterrupt:
                process.kill()  # an impatient user; what it saved stays whole
                process.communicate()
            raise


def _last_line(log: Path) -> str:
    with open_to_read(log) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        lines = file.read().decode(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")


def _die_with_parent() -> Callable[[], object] | None:
    """A call for the new process: the kernel kills it when its parent is gone."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    return None if prctl is None else lambda: prctl(_DIE_WITH_PARENT, signal.SIGKILL)
