"""Reads mutmut's mutants: the place of each, its text before and after, and its result."""

from __future__ import annotations

import ast
import difflib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mutation.rooms import DRAWN, SEED, Room
from mutation.workplace import SKIPPED, SURVIVED, Workplace

MARK = "__mutmut_"
"""In the names of the functions that mutmut writes: `x_f__mutmut_orig`, `x_f__mutmut_1`, `xǁClassǁmethod__mutmut_1`."""


@dataclass(frozen=True)
class Mutant:
    """One small fault."""

    name: str
    """mutmut's name for it."""
    file: Path
    """Its file in the checkout."""
    function: str
    before: str
    """The lines that it changes, on one line."""
    after: str
    text_only: bool
    """Whether it differs from the original only in strings or in what is raised."""
    code: int | None

    @property
    def tried(self) -> bool:
        """Whether it was run."""
        return self.code not in (None, SKIPPED)

    @property
    def killed(self) -> bool:
        """Whether a test failed, crashed or ran out of time."""
        return self.tried and self.code not in SURVIVED


def read_mutants(place: Workplace) -> list[Mutant]:
    """Every mutant of a room, in the order of files and mutmut's numbers."""
    codes = place.codes()
    return [mutant for file in place.files for mutant in _of_file(place, file, codes)]


def choose(mutants: Mapping[Room, list[Mutant]]) -> dict[Room, set[str]]:
    """The names of the mutants to run: all in exhaustive rooms, a random sample of the others."""
    candidates = {
        room: [mutant.name for mutant in room_mutants if not mutant.text_only] for room, room_mutants in mutants.items()
    }
    pool = [name for room, names in candidates.items() if not room.exhaustive for name in sorted(names)]
    drawn = set(random.Random(SEED).sample(pool, min(DRAWN, len(pool))))
    return {room: {name for name in names if room.exhaustive or name in drawn} for room, names in candidates.items()}


def _of_file(place: Workplace, file: Path, codes: Mapping[str, int | None]) -> Iterator[Mutant]:
    source = place.mutated(file).read_text(encoding="utf-8")
    module = ".".join(file.with_suffix("").parts)
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and MARK in node.name
    }
    lines = source.splitlines()
    for name, node in functions.items():
        stem, _, number = name.partition(MARK)
        if number == "orig":
            continue
        original = functions[f"{stem}{MARK}orig"]
        changes = [*difflib.ndiff(_lines(lines, original), _lines(lines, node))]
        before, after = (" ".join(line[2:] for line in changes if line[0] == sign) for sign in "-+")
        yield Mutant(
            name=f"{module}.{name}",
            file=place.files[file],
            function=stem.removeprefix("x_").removeprefix("xǁ").replace("ǁ", "."),
            before=before,
            after=after,
            text_only=_without_text(original) == _without_text(node),
            code=codes.get(f"{module}.{name}"),
        )


def _lines(lines: list[str], node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The function's lines, with the same name for all mutants."""
    first, *rest = (line.strip() for line in lines[node.lineno - 1 : node.end_lineno])
    return [first.replace(node.name, "f"), *rest]


class _Textless(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
        return ast.Constant("")

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        return ast.Raise()


def _without_text(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The function's structure without names, strings and what is raised."""
    copy = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(copy, ast.FunctionDef | ast.AsyncFunctionDef)
    copy.name = ""
    return ast.dump(_Textless().visit(copy))
