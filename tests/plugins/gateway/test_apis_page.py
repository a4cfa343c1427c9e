"""docs/apis.md says of every field what the gateway does with it, as the tables in the code do."""

from __future__ import annotations

import os
from pathlib import Path

from agent_r1_gateway.dialects.fields import Dialect, Effect
from agent_r1_gateway.server import DIALECTS

TITLES = {
    "chat": "OpenAI Chat Completions",
    "messages": "Anthropic Messages",
    "responses": "OpenAI Responses",
}
BEGIN, END = "<!-- fields -->\n", "<!-- end of fields -->\n"


def table(dialect: Dialect) -> str:
    """A dialect's fields as a Markdown table; those without effect in one row, since their notes are one."""
    lines = [f"## {TITLES[dialect.NAME]}", "", f"`POST {dialect.PATHS[0]}`", "", "| field | | |", "|---|---|---|"]
    for effect in (Effect.HONOURED, Effect.REFUSED):
        rows = [row for row in dialect.FIELDS.values() if row.effect is effect]
        lines += [f"| `{row.name}` | {effect} | {row.note} |" for row in sorted(rows, key=lambda row: row.name)]
    idle = sorted(row.name for row in dialect.FIELDS.values() if row.effect is Effect.WITHOUT_EFFECT)
    lines.append(f"| {', '.join(f'`{name}`' for name in idle)} | {Effect.WITHOUT_EFFECT} | |")
    return "\n".join([*lines, ""])


def test_the_page_shows_the_tables(root: Path) -> None:
    """WRITE_DOCS=1 writes the page anew."""
    page = root / "docs" / "apis.md"
    text = page.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    wanted = before + BEGIN + "\n" + "\n".join(map(table, DIALECTS)) + "\n" + END + after
    if os.environ.get("WRITE_DOCS"):
        page.write_text(wanted, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == wanted
