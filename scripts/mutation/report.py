"""The report: docs/notes/mutants.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from mutation.explained import explain
from mutation.mutants import Mutant
from mutation.rooms import DRAWN, SEED, Room

INTRODUCTION = """# Mutation score

`make mutants` plants small faults, one at a time, and runs the fast tests of the room: a fault that no test notices
survives. Every mutant of the credit, the losses and the algorithms is tried; of the other rooms {drawn} are drawn with
seed {seed}. [mutmut](https://mutmut.readthedocs.io) makes the mutants; those of texts are left out.

**{killed} of {tried} killed: {share}.**
"""


def write_report(mutants: Mapping[Room, list[Mutant]], path: Path) -> None:
    """Write the table of files and the list of survivors; an explained survivor still counts as one."""
    tried = [mutant for room_mutants in mutants.values() for mutant in room_mutants if mutant.tried]
    lines = [
        INTRODUCTION.format(drawn=DRAWN, seed=SEED, killed=_killed(tried), tried=len(tried), share=_share(tried)),
        "| file | mutants | killed | survived | share |",
        "|---|--:|--:|--:|--:|",
    ]
    for file in sorted({mutant.file for mutant in tried}):
        of_file = [mutant for mutant in tried if mutant.file == file]
        killed = _killed(of_file)
        lines.append(f"| `{file}` | {len(of_file)} | {killed} | {len(of_file) - killed} | {_share(of_file)} |")
    lines += ["", "## Survivors", ""]
    lines += [line for mutant in tried if not mutant.killed for line in _survivor(mutant)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _survivor(mutant: Mutant) -> Iterable[str]:
    reason = explain(mutant.file.stem, mutant.before, mutant.after)
    yield f"- `{mutant.file.name}`, `{mutant.function}`: {reason}"
    yield f"  `{mutant.before}` → `{mutant.after}`"


def _killed(mutants: list[Mutant]) -> int:
    return sum(mutant.killed for mutant in mutants)


def _share(mutants: list[Mutant]) -> str:
    return f"{_killed(mutants) / len(mutants):.1%}" if mutants else "-"
