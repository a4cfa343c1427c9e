"""Runs the cells of a matrix that have not finished, one after the other; each command in a process of its own.

A cell that fails does not stop the others. An interruption ends the running cell as it ends a training: its run is
saved, and goes on when the matrix is resumed.
"""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_r1_core.errors import AgentR1Error, RunError
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.opening import open_to_read, open_to_write
from agent_r1_core.runs.files import naming, remove_folder
from agent_r1_core.runs.run import Run
from agent_r1_paper.cost import time_left
from agent_r1_paper.matrix import Cell, Matrix
from agent_r1_paper.matrix_display import MatrixDisplay
from agent_r1_paper.store import Store

Execute = Callable[[Sequence[str], Path], str]
"""Runs a command of agent-r1, adding what it says on stderr to a file; returns what it says on stdout. Raises RunError
with the command's last sentence if it fails."""


def run_matrix(matrix: Matrix, store: Store, execute: Execute, display: MatrixDisplay) -> dict[str, str]:
    """Run what has not run yet.

    Returns:
        By cell, why it failed or was left out.

    Raises:
        KeyboardInterrupt: the work was interrupted; the text says how far it is.
    """
    cells, failures = matrix.cells(), dict[str, str]()
    for index, cell in enumerate(cells):
        if store.record(cell) is not None:
            continue
        with store.claimed(cell) as ours:
            if not ours:
                failures[cell.name] = "another process runs it"
                display.skip(cell, failures[cell.name])
                continue
            if store.record(cell) is not None:
                continue
            display.begin(cell, index + 1, len(cells), time_left(matrix, store))
            started, failure = time.monotonic(), None
            try:
                _run_cell(matrix, cell, store, execute, started)
            except AgentR1Error as error:
                failures[cell.name] = failure = str(error)
            except KeyboardInterrupt:
                done = sum(store.record(other) is not None for other in cells)
                raise KeyboardInterrupt(f"stopped in {cell.name}, with {done} of {len(cells)} cells finished") from None
            display.end(cell, time.monotonic() - started, failure)
    return failures


def _run_cell(matrix: Matrix, cell: Cell, store: Store, execute: Execute, started: float) -> None:
    """Train, unless the run is complete; score; record.

    Raises:
        RunError: a command failed.
    """
    run, log = store.runs / cell.name, store.log(cell)
    if cell.row.trained:
        if not (Run.is_run(run) and Run.open(run).model.is_dir()):
            execute(_training(matrix, cell, store.runs), log)
    elif Run.is_run(run):
        remove_folder(run)  # a killed evaluation left it
    if matrix.table.trainings_score:
        store.finish(cell, matrix.commands(cell, store.runs), ResultFile.open(run).path, time.monotonic() - started)
        return
    command = matrix.evaluation(cell, store.runs)
    answer = execute(command, log)
    try:
        file = Path(json.loads(answer)["file"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"agent-r1 {shlex.join(command)} named no file with its result; see {log}") from error
    store.finish(cell, matrix.commands(cell, store.runs), file, time.monotonic() - started)


def _training(matrix: Matrix, cell: Cell, home: Path) -> list[str]:
    run = home / cell.name
    if not run.exists():
        return matrix.training(cell, home)
    if Run.is_run(run) and (run / "config.yaml").is_file():
        return ["train", str(run), "--resume"]
    return [*matrix.training(cell, home), "--force"]  # it was killed while it was set up


_CALL = "from agent_r1_cli.main import main; main()"
_LOOK_SECONDS = 0.5
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux; elsewhere a killed matrix leaves its running cell to end by itself."""
_TAIL = 4096


class CellProcess:
    """Executes commands in processes that do not outlive this one; meanwhile `look` gets their log's last line."""

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
