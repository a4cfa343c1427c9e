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
import ast
import difflib
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.rooms import DRAWN, ROOMS, SEED, Room

INTRODUCTION = """# Mutation score

`make mutants` plants small faults, one at a time, and runs the fast tests of the room: a fault that no test notices
survives. Every mutant of the credit, the losses and the algorithms is tried; of the other rooms {drawn} are drawn with
seed {seed}. [mutmut](https://mutmut.readthedocs.io) makes the mutants; those of texts are left out.

**{killed} of {tried} killed: {share}.**
"""
ROOT = Path(__file__).resolve().parent.parent
EXPLAINED = ROOT / "scripts" / "mutation" / "explained.txt"
MARK = "__mutmut_"
"""In the names of the functions that mutmut writes: `x_f__mutmut_orig`, `x_f__mutmut_1`, `xǁClassǁmethod__mutmut_1`."""
SKIPPED = 34
"""mutmut's exit code for a skipped mutant."""
SURVIVED = (0, 5, 33)
"""mutmut's exit codes for a mutant that no test noticed: the tests passed, or there were none."""
TEST_FILES = ("tests", "recipes", "templates", "README.md", "CONTRIBUTING.md")
GENERATE = "from mutmut.__main__ import *; copy_src_dir(); copy_also_copy_files(); create_mutants(1)"
FASTEST_FIRST = Path(__file__).parent / "mutation" / "fastest_first.py"
Codes = dict[str, int | None]
"""mutmut's exit code of each mutant by name; None: not run yet."""


class Workplace:
    """The folder that mutmut works in for one room: all packages side by side, with the tests of the room.

    mutmut names a mutant after the path of its file and looks it up by the name of its module, so packages must lie at
    the top of the folder and not under plugins/.
    """

    def __init__(self, root: Path, folder: Path, room: Room) -> None:
        self.root, self.folder, self.room = root, folder, room
        self.files = {Path(*path.parts[path.parts[0] == "plugins" :]): path for path in room.files(root)}
        """The path of each mutated file in the folder, and in the checkout."""

    def prepare(self) -> None:
        """Copy the checkout and generate every mutant, unless that was done for the same source and tests."""
        own = (self.root / "agent_r1_core", self.root / "agent_r1_cli")
        packages = [*own, *sorted(self.root.glob("plugins/agent_r1_*"))]
        source = _digest(packages, *self.files)
        tests = _digest([self.root / name for name in TEST_FILES], self.room)
        file = self.folder / "state.json"
        state = json.loads(file.read_text()) if file.is_file() else {}
        if state.get("source") != source:
            shutil.rmtree(self.folder, ignore_errors=True)
            for package in packages:
                _copy(package, self.folder / package.name)
        if (state.get("source"), state.get("tests")) != (source, tests):
            for name in TEST_FILES:
                _remove(self.folder / "mutants" / name)
                _copy(self.root / name, self.folder / name)
            _copy(FASTEST_FIRST, self.folder / FASTEST_FIRST.name)
            _remove(self.folder / "mutants" / "mutmut-stats.json")  # which test reaches which function
            (self.folder / "pyproject.toml").write_text(self._settings([package.name for package in packages]))
            self._python("-c", GENERATE)
            self._change(lambda name, code: None if code in SURVIVED else code)
        file.write_text(json.dumps({"source": source, "tests": tests}))

    def leave_out_all_but(self, names: set[str]) -> None:
        """Mark the mutants that will not be run."""
        self._change(lambda name, code: SKIPPED if name not in names else None if code == SKIPPED else code)

    def run(self, workers: int) -> None:
        if None in self.codes().values():
            self._python("-c", "from mutmut.__main__ import cli; cli()", "run", "--max-children", str(workers))

    def codes(self) -> Codes:
        return {name: code for file in self.files for name, code in self._record(file)["exit_code_by_key"].items()}

    def mutated(self, file: Path, ending: str = "") -> Path:
        """The file of the folder that holds a source file's functions with all their mutants, or its record."""
        return self.folder / "mutants" / f"{file}{ending}"

    def _change(self, rule: Callable[[str, int | None], int | None]) -> None:
        for file in self.files:
            record = self._record(file)
            record["exit_code_by_key"] = {name: rule(name, code) for name, code in record["exit_code_by_key"].items()}
            self.mutated(file, ".meta").write_text(json.dumps(record, indent=4))

    def _record(self, file: Path) -> dict[str, Any]:
        path = self.mutated(file, ".meta")
        return json.loads(path.read_text()) if path.is_file() else {"exit_code_by_key": {}}

    def _settings(self, packages: list[str]) -> str:
        """The project's own settings of pytest, and mutmut's."""
        without = ["-k", f"not ({self.room.without})"] if self.room.without else []
        settings = {
            "source_paths": packages,
            "only_mutate": [str(path) for path in self.files],
            "also_copy": [*TEST_FILES, FASTEST_FIRST.name],
            "pytest_add_cli_args_test_selection": [name for name in self.room.tests if (self.root / name).exists()],
            "pytest_add_cli_args": ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", FASTEST_FIRST.stem, *without],
            "process_isolation": "forkserver",
            "track_dependencies": False,
            "use_git_change_detection": False,
            "timeout_multiplier": 4.0,
            "timeout_constant": 5.0,
        }
        lines = (f"{key} = {json.dumps(value)}" for key, value in settings.items())
        return "\n".join([(self.root / "pyproject.toml").read_text(), "[tool.mutmut]", *lines, ""])

    def _python(self, *arguments: str) -> None:
        """Run Python in the folder, with one thread per process, and without the checkout on its path."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env={**environment, "OMP_NUM_THREADS": "1"}, check=True
        )


def _digest(paths: Iterable[Path], *more: object) -> str:
    """A hash of files and folders, and of `more`."""
    digest = hashlib.sha256(repr(more).encode())
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, in the place of what is there."""
    _remove(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Mutant:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rooms", default=",".join(room.name for room in ROOMS), help="rooms to run, comma-separated")
    parser.add_argument("--workers", type=int, default=2, help="mutants to run at once")
    parser.add_argument("--list", action="store_true", help="only list the survivors so far")
    options = parser.parse_args()
    places = {room: Workplace(ROOT, ROOT / "build" / "mutants" / room.name, room) for room in ROOMS}
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
    for room, all_of_room in mutants.items():
        tried = [mutant for mutant in all_of_room if mutant.tried]
        survived = [mutant for mutant in tried if not mutant.killed]
        print(f"{room.name}: {len(tried) - len(survived)} of {len(tried)} killed")
        for mutant in survived:
            print(f"  {mutant.file} {mutant.function} ({mutant.name})\n    - {mutant.before}\n    + {mutant.after}")


def write_report(mutants: Mapping[Room, list[Mutant]], path: Path) -> None:
    """Write the table of files and the list of survivors; an explained survivor still counts as one."""
    tried = [mutant for room_mutants in mutants.values() for mutant in room_mutants if mutant.tried]
    killed, share = _score(tried)
    lines = [INTRODUCTION.format(drawn=DRAWN, seed=SEED, killed=killed, tried=len(tried), share=share)]
    lines += ["| file | mutants | killed | survived | share |", "|---|--:|--:|--:|--:|"]
    for file in sorted({mutant.file for mutant in tried}):
        of_file = [mutant for mutant in tried if mutant.file == file]
        killed, share = _score(of_file)
        lines.append(f"| `{file}` | {len(of_file)} | {killed} | {len(of_file) - killed} | {share} |")
    lines += ["", "## Survivors", ""]
    reasons = explained()
    for one in (mutant for mutant in tried if not mutant.killed):
        reason = reasons.get((one.file.stem, one.before, one.after))
        lines.append(f"- `{one.file.name}`, `{one.function}`: {reason or 'Not explained.'}")
        lines.append(f"  `{one.before}` → `{one.after}`")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


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


def _score(mutants: list[Mutant]) -> tuple[int, str]:
    killed = sum(mutant.killed for mutant in mutants)
    return killed, f"{killed / len(mutants):.1%}" if mutants else "-"


if __name__ == "__main__":
    main()
