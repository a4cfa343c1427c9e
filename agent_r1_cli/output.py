"""What commands print: answers on stdout, narration on stderr; rich only on a terminal.

Text for people passes through `shown`: what a model, a tool or a file says cannot act on the terminal. JSON is exact.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_core.terminal import shown, shown_in_line

SCHEMA = 1
"""Version of the JSON that commands print."""


def print_json(answer: Mapping[str, Any]) -> None:
    """Print an answer as JSON, with the schema version; what stdout cannot encode is written as JSON escapes."""
    versioned = {"schema": SCHEMA, **answer}
    text = json.dumps(versioned, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(versioned, indent=2)
    print(text)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headers: a rich table on a terminal, aligned columns elsewhere."""
    rows = [[shown_in_line(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*headers, box=None, header_style="bold", pad_edge=False)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console(emoji=False).print(table)
        return
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    for row in (headers, *rows):
        show("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (headers, ["---"] * len(headers), *rows))


def show(text: str = "") -> None:
    """Print text for people on stdout."""
    print(shown(text, sys.stdout.encoding))


def prints_apart(as_json: bool) -> AbstractContextManager[Any]:
    """Around the work of components: what they print goes to standard error where standard output is to be JSON."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def say(text: str) -> None:
    print(shown(text, sys.stderr.encoding), file=sys.stderr, flush=True)


def check_target(file: Path) -> None:
    """Refuse the name of a file that cannot be written, before anything is done for it.

    Raises:
        RunError: it is a folder, or its folder is not there.
    """
    if file.is_dir() or not file.parent.is_dir():
        raise RunError(f"{file} cannot be written: it needs the name of a file in a folder that exists")


def show_logged_warnings() -> None:
    """From now on, warnings that are logged without a handler pass through `shown`, too."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_ShownFormatter())


class _ShownFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record), sys.stderr.encoding)
