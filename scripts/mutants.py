"""Mutation score: how many small faults in the mathematics and the rollout the tests notice (`make mutants`).

    python scripts/mutants.py
    python scripts/mutants.py --rooms losses,chat --workers 1
    python scripts/mutants.py --rooms losses --list

mutmut makes the mutants and runs a room's tests against each one in a process forked from one that has imported
everything. An interrupted run continues where it stopped. After a change of the source, everything starts over. After a
change of the tests only, survivors are tried again and killed mutants stay killed. Results are in build/mutants/;
docs/notes/mutants.md is written when all rooms are done.

mutmut mutates functions; of decorated ones, only class methods and static methods. It never mutates class bodies,
module constants, properties or annotations. Mutants that differ only in text (string literals, f-strings, the message
of a `raise`) are left out.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from mutation.mutants import Mutant, choose, read_mutants
from mutation.rooms import DRAWN, ROOMS, SEED, Room
from mutation.workplace import Workplace

INTRODUCTION = """# Mutation score

`make mutants` plants small faults, one at a time, and runs the fast tests of the room: a fault that no test notices
survives. Every mutant of the credit, the losses and the algorithms is tried; of the other rooms {drawn} are drawn with
seed {seed}. [mutmut](https://mutmut.readthedocs.io) makes the mutants; those of texts are left out.

**{killed} of {tried} killed: {share}.**
"""
ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = ROOT / "scripts" / "mutation" / "explained.txt"


def main() -> None:
    """Generate the mutants of every room, draw a sample, run it, and write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rooms", default=",".join(room.name for room in ROOMS), help="rooms to run, comma-separated")
    parser.add_argument("--workers", type=int, default=2, help="mutants to run at once")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="the folder of results")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--list", action="store_true", help="only list the survivors so far")
    options = parser.parse_args()
    if options.fresh:
        shutil.rmtree(options.folder, ignore_errors=True)
    places = {room: Workplace(ROOT, options.folder / room.name, room) for room in ROOMS}
    wanted = [room for room in ROOMS if room.name in options.rooms.split(",")]
    if not options.list:
        drawn_from = wanted if all(room.exhaustive for room in wanted) else ROOMS
        for room in drawn_from:
            places[room].prepare()
        for room, names in choose({room: read_mutants(places[room]) for room in drawn_from}).items():
            places[room].leave_out_all_but(names)
        for room in wanted:
            places[room].run(options.workers)
    mutants = {room: read_mutants(places[room]) for room in wanted}
    show(mutants)
    if not options.list and wanted == list(ROOMS):
        write_report(mutants, ROOT / "docs" / "notes" / "mutants.md")


def show(mutants: dict[Room, list[Mutant]]) -> None:
    """Print each room's score and its survivors."""
    for room, all_of_room in mutants.items():
        tried = [mutant for mutant in all_of_room if mutant.tried]
        survived = [mutant for mutant in tried if not mutant.killed]
        print(f"{room.name}: {len(tried) - len(survived)} of {len(tried)} killed")
        for mutant in survived:
            print(f"  {mutant.file} {mutant.function} ({mutant.name})\n    - {mutant.before}\n    + {mutant.after}")


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
    for one in (mutant for mutant in tried if not mutant.killed):
        reason = explained().get((one.file.stem, one.before, one.after))
        lines.append(f"- `{one.file.name}`, `{one.function}`: {reason or 'Not explained.'}")
        lines.append(f"  `{one.before}` → `{one.after}`")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@cache
def explained() -> dict[tuple[str, ...], str]:
    """Reasons for survivors that no test can distinguish from the original, or that none should. The file has each
    reason above its survivors, written as in the report: file, changed lines before and after."""
    found, reason = {}, ""
    for line in EXPLAINED.read_text(encoding="utf-8").splitlines():
        if change := re.fullmatch(r"(\w+): `(.*)` → `(.*)`", line):
            found[change.groups()] = reason
        else:
            reason = line.removeprefix("# ")
    return found


def _killed(mutants: list[Mutant]) -> int:
    return sum(mutant.killed for mutant in mutants)


def _share(mutants: list[Mutant]) -> str:
    return f"{_killed(mutants) / len(mutants):.1%}" if mutants else "-"


if __name__ == "__main__":
    main()
