"""`agent-r1 runs`: lists runs with state, best score, the curve of the reward, time and age."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_r1_cli.completion import places
from agent_r1_cli.output import print_json, print_table, say, show
from agent_r1_cli.plugin_options import AsJson

if TYPE_CHECKING:
    from agent_r1_core.runs.reading.summary import RunSummary

HOME = "runs"
"""Where runs are unless a recipe says otherwise."""
_HEADERS = ("run", "state", "step", "best", "reward", "time", "age")
_LEAST_FIRST = ("time", "reward", "step", "age")
_GAP = 2
_NAME, _CUT = 30, "..."
"""Columns that a name may take at the cost of others, and the mark of a cut."""
_CURVE = 16
"""Columns of a curve."""
_UNKNOWN = "-"

Places = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FOLDER]...",
        help="Folders with runs, or runs (default: runs).",
        show_default=False,
        autocompletion=places,
    ),
]


def runs(folders: Places = None, as_json: AsJson = False) -> None:
    """List runs, the newest first.

    \b
    agent-r1 runs                  those in the folder runs
    agent-r1 runs /data/runs old   those in other folders, however deep
    agent-r1 runs --json           everything about each, for programs

    BEST is the best evaluation with its interval (95 %) and, where episodes failed, how many of its tasks were scored;
    REWARD the mean reward of the steps from the run's lowest to its highest; TIME that of all steps; AGE how long ago
    the run began.
    """
    from agent_r1_core.runs.reading.found_runs import FoundRuns
    from agent_r1_core.runs.reading.summary import RunSummary
    from agent_r1_core.runs.run_reader import RunReader
    from agent_r1_core.work import WorkDisplay, working

    chosen = folders or ([Path(HOME)] if Path(HOME).exists() else [])
    found = FoundRuns(chosen).all()
    read: dict[str, RunSummary] = {}
    with WorkDisplay(), working("reading runs", len(found), unit="runs") as work:
        for name, path in found.items():
            read[name] = RunSummary.of(RunReader(path))
            work.advance()
    listed = dict(sorted(read.items(), key=lambda item: item[1].created or item[1].updated or 0, reverse=True))
    if as_json:
        from agent_r1_core.contracts.json_text import to_json

        plain = [{"id": name, **summary.to_json()} for name, summary in listed.items()]
        print_json({"runs": json.loads(to_json(plain))})
        return
    if not listed:
        where = ", ".join(map(str, folders or [Path(HOME)]))
        say(f"there are no runs in {where}; `agent-r1 train` makes one, or name the folder that holds yours")
        return
    now = time.time()
    rows = [_HEADERS, *(_row(name, summary, now) for name, summary in listed.items())]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    headers, *others = rows if width is None else _narrowed(rows, width)
    print_table(headers, others)
    for name, summary in listed.items():
        if summary.best is not None and summary.best.failures is not None:
            show(f"{name}: of {summary.best.metric}, {summary.best.failures.sentence()}")
        if summary.problem is not None:
            show(f"{name}: {summary.problem}")


def _row(name: str, summary: RunSummary, now: float) -> Sequence[str]:
    from agent_r1_core.terminal import shown_in_line, sparkline
    from agent_r1_core.work import duration

    steps = [_UNKNOWN if step is None else str(step) for step in (summary.step, summary.steps)]
    return [
        shown_in_line(name),
        summary.state or _UNKNOWN,
        "/".join(steps),
        _best(summary),
        sparkline([reward for _, reward in summary.curve], _CURVE, sys.stdout.encoding),
        _UNKNOWN if summary.seconds is None else duration(summary.seconds),
        _UNKNOWN if summary.created is None else age(now - summary.created),
    ]


def _narrowed(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """The rows without the columns that matter least, as far as is needed for a terminal of that width, and with names
    that fit into what is left."""
    names, *columns = zip(*rows, strict=True)
    for header in _LEAST_FIRST:
        if _across(columns) + min(_NAME, max(map(len, names))) <= width:
            break
        columns = [column for column in columns if column[0] != header]
    room = max(_NAME, width - _across(columns))
    return [list(row) for row in zip([_shortened(name, room) for name in names], *columns, strict=True)]


def _across(columns: Sequence[Sequence[str]]) -> int:
    """The width of columns and of the gaps before them."""
    return sum(max(map(len, column)) + _GAP for column in columns)


def _shortened(name: str, most: int) -> str:
    """A name without its middle: names of a series differ at their ends."""
    if len(name) <= most:
        return name
    begin = (most - len(_CUT)) // 2
    return name[:begin] + _CUT + name[begin - most + len(_CUT) :]


def _best(summary: RunSummary) -> str:
    if summary.best is None:
        return _UNKNOWN
    score = summary.best.score
    lost = "" if score.asked is None else f"({score.count})"
    return " ".join(filter(None, (summary.best.metric, f"{score.mean:.3f}", score.interval, lost)))


def age(seconds: float) -> str:
    """`40 s`, `3 min`, `5 h`, `12 days`."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
