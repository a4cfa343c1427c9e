"""Runs the cells of a matrix that have not finished, one after the other; each command in a process of its own.

A cell that fails does not stop the others. An interruption ends the running cell as it ends a training: its run is
saved, and goes on when the matrix is resumed.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_r1_core.errors import AgentR1Error, RunError
from agent_r1_core.runs.files import remove_folder
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
