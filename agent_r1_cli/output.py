"""What commands print: answers on stdout, narration on stderr; rich only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

SCHEMA = 1
"""Version of the JSON that commands print."""


def print_json(answer: Mapping[str, Any]) -> None:
    """Print an answer as JSON, with the schema version."""
    print(json.dumps({"schema": SCHEMA, **answer}, indent=2, ensure_ascii=False))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headers: a rich table on a terminal, aligned columns elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*headers, box=None, header_style="bold", pad_edge=False)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    for row in (headers, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def say(text: str) -> None:
    """Print a sentence on stderr."""
    print(text, file=sys.stderr, flush=True)
