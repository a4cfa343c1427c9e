"""`agent-r1 reproduce`: repeats a table of a paper, and prints it beside the paper's own."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_r1_cli.completion import Offer
from agent_r1_cli.output import print_json, print_table, say, show
from agent_r1_cli.plugin_options import AsJson
from agent_r1_cli.recipe_arguments import check_overrides
from agent_r1_paper.shaping import ALL_TABLES
from agent_r1_paper.tables import SCALES

if TYPE_CHECKING:
    from agent_r1_paper.matrix import Matrix
    from agent_r1_paper.report import Report
    from agent_r1_paper.store import Store


def _tables() -> list[Offer]:
    """What the Tab key offers for TABLE."""
    return [(table.name, table.title) for table in ALL_TABLES.values()]


def _scales() -> list[Offer]:
    return [(scale.name, scale.about) for scale in SCALES.values()]


def _rows() -> list[Offer]:
    """For `--row`: the rows of all tables."""
    return sorted({(row.name, row.title) for table in ALL_TABLES.values() for row in table.rows})


def reproduce(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="`table3`, `table4` or `shaping`.", autocompletion=_tables)
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Keys to change in every recipe.", show_default=False),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            metavar="NAME",
            help="`tiny`: the bundled model on a CPU; `paper`: Qwen2.5-3B-Instruct on GPUs.",
            autocompletion=_scales,
        ),
    ] = "tiny",
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Trainings of each method.")] = 3,
    row: Annotated[
        list[str] | None,
        typer.Option("--row", metavar="ROW", help="Run only this row; may be repeated.", autocompletion=_rows),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="FOLDER", help="Where everything is kept; else a folder in runs/.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue: run what the folder lacks.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the cells, their commands and costs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Repeat a table of the paper, beside the paper's own.

    \b
    agent-r1 reproduce table3                       the methods, on a laptop
    agent-r1 reproduce table4                       the masks
    agent-r1 reproduce shaping --seeds 5            RAGEN's shapes of rollouts
    agent-r1 reproduce table3 --scale paper --dry-run    what the real one costs
    agent-r1 reproduce table3 --scale paper --row grpo   one of its methods

    Every cell is a command or two that can be run by themselves; --dry-run prints them. Several processes may fill one
    folder, each with its own --row, all but the first with --resume.
    """
    matrix = _matrix(table, scale, seeds, overrides or [], row or [])
    from agent_r1_paper.store import Store

    store = Store(folder if folder is not None else Path("runs", matrix.scale.folder(table)))
    if dry_run:
        _show_plan(matrix, store, as_json)
        return
    report, failures = _run(matrix, store, resume)
    files = _write(report, store)
    if as_json:
        print_json({**report.to_json(), "folder": str(store.path)})
    else:
        _show(report)
    for file in files:
        say(f"written to {file}")
    if failures:
        say(f"{len(failures)} of {len(matrix.cells())} cells have not run; repeat the command with --resume")
        raise typer.Exit(1)


def _matrix(table: str, scale: str, seeds: int, overrides: list[str], rows: list[str]) -> Matrix:
    """The matrix that the arguments name.

    Raises:
        ConfigError: there is no such table, scale or row, or an argument is no override.
    """
    from agent_r1_core.errors import ConfigError
    from agent_r1_paper.matrix import Matrix

    if table not in ALL_TABLES:
        raise ConfigError(f"there is no table {table!r}; the tables are {', '.join(ALL_TABLES)}")
    if scale not in SCALES:
        raise ConfigError(f"there is no scale {scale!r}; the scales are {', '.join(SCALES)}")
    if ALL_TABLES[table].recipe and scale != "tiny":
        raise ConfigError(f"{table} has no scale {scale!r}, only tiny")
    check_overrides(overrides)
    return Matrix(ALL_TABLES[table], SCALES[scale], seeds, SCALES[scale].overrides(table, overrides), tuple(rows))


def _run(matrix: Matrix, store: Store, resume: bool) -> tuple[Report, dict[str, str]]:
    """Run what has not run, and read what there is.

    Raises:
        KeyboardInterrupt: it was interrupted; the text says how to go on.
    """
    from agent_r1_core.work.running import termination_interrupts
    from agent_r1_paper.matrix_display import MatrixDisplay
    from agent_r1_paper.report import make_report
    from agent_r1_paper.runner import CellProcess, run_matrix

    with termination_interrupts():
        store.open(matrix, resume)
        try:
            with MatrixDisplay() as display:
                failures = run_matrix(matrix, store, CellProcess(display.look), display)
        except KeyboardInterrupt as interruption:
            again = [word for word in sys.argv[1:] if word != "--resume"]
            text = f"{interruption}; continue with: agent-r1 {shlex.join(again)} --resume"
            raise KeyboardInterrupt(text) from None
    return make_report(matrix, store, failures), failures


def _show_plan(matrix: Matrix, store: Store, as_json: bool) -> None:
    """Print every cell with its commands and its estimated cost; touches nothing."""
    from agent_r1_paper.cost import cell_seconds

    plan: list[dict[str, Any]] = []
    for cell in matrix.cells():
        commands = [shlex.join(["agent-r1", *command]) for command in matrix.commands(cell, store.runs)]
        seconds = cell_seconds(matrix, cell)
        plan.append({"cell": cell.name, "commands": commands, "seconds": round(seconds)})
    total, about = sum(item["seconds"] for item in plan), matrix.scale.costs.about
    if as_json:
        print_json(
            {"table": matrix.table.name, "scale": matrix.scale.name, "cells": plan, "seconds": total, "assumed": about}
        )
        return
    print_table(("cell", "estimate"), [(item["cell"], _hours(item["seconds"])) for item in plan])
    show()
    for item in plan:
        for command in item["commands"]:
            show(command)
    show()
    show(f"{len(plan)} cells, about {_hours(total)} one after the other; estimated for {about}")


def _write(report: Report, store: Store) -> list[Path]:
    """Write the report into the folder."""
    from agent_r1_core.runs.files import write_json, write_text
    from agent_r1_paper.markdown import markdown
    from agent_r1_paper.picture import can_draw, draw

    name = report.matrix.table.name
    files = [store.path / f"{name}.{suffix}" for suffix in ("md", "json", "png")]
    write_text(files[0], markdown(report))
    write_json(files[1], report.to_json())
    if not can_draw():
        say("there is no picture, since matplotlib is not installed; `pip install matplotlib`, then --resume")
        return files[:2]
    draw(report, files[2])
    return files


def _show(report: Report) -> None:
    """Print the report for people; stdout is Markdown, or a table on a terminal."""
    from agent_r1_paper.markdown import markdown, table

    if not sys.stdout.isatty():
        show(markdown(report).rstrip())
        return
    header, *lines = table(report)
    print_table(header, lines)
    for claim in report.claims:
        show(claim.sentence())


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 7200 else f"{seconds / 60:.1f} min"
