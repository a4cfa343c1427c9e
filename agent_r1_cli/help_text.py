"""Formats `--help`: the usual notation for arguments, without Python's types.

Typer writes `[[RECIPE] [KEY=VALUE]...]...` and `[RECIPE] [KEY=VALUE]... <list[str]>` where a person writes
`[RECIPE] [KEY=VALUE]...`. Lines after `\\b` in a docstring, such as examples, keep their line breaks.
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Context settings of every group: help fills a terminal of up to 100 columns."""

_TYPE = re.compile(r" <[^<>]*>$")
_BRACKETS_TWICE = re.compile(r"\[(\[.*\].*)\](\.\.\.)?$")
_BRACES = re.compile(r"\{(.*)\}$")


class Command(TyperCommand):
    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        return [_BRACES.sub(r"\1", _BRACKETS_TWICE.sub(r"\1", piece)) for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for kind in ("argument", "option"):
            parameters = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == kind]
            rows = [row for parameter in parameters if (row := parameter.get_help_record(ctx)) is not None]
            if kind == "argument":
                rows = [(_TYPE.sub("", name), text) for name, text in rows]
            if rows:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(rows)
