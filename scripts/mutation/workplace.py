"""The folder that mutmut works in: all packages side by side, with the tests of one room.

mutmut names a mutant after the path of its file and looks it up by the name of its module, so packages must lie at the
top of the folder and not under plugins/.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mutation.rooms import Room

SKIPPED = 34
"""mutmut's exit code for a skipped mutant."""
SURVIVED = (0, 5, 33)
"""mutmut's exit codes for a mutant that no test noticed: the tests passed, or there were none."""
TEST_FILES = ("tests", "recipes", "templates", "README.md", "CONTRIBUTING.md")
GENERATE = "from mutmut.__main__ import *; copy_src_dir(); copy_also_copy_files(); create_mutants(1)"
FASTEST_FIRST = Path(__file__).with_name("fastest_first.py")
Codes = dict[str, int | None]
"""mutmut's exit code of each mutant by name; None: not run yet."""


class Workplace:
    """One room's folder."""

    def __init__(self, root: Path, folder: Path, room: Room) -> None:
        self.root, self.folder, self.room = root, folder, room
        self.files = {Path(*path.parts[path.parts[0] == "plugins" :]): path for path in room.files(root)}
        """The path of each mutated file in the folder, and in the checkout."""

    def prepare(self) -> None:
        """Copy the checkout and generate every mutant, unless that was done for the same source and tests."""
        packages = [
            self.root / "agent_r1_core",
            self.root / "agent_r1_cli",
            *sorted(self.root.glob("plugins/agent_r1_*")),
        ]
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
                _remove(self.folder / name)
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
        """Run the mutants that have no result yet."""
        if None in self.codes().values():
            self._python("-c", "from mutmut.__main__ import cli; cli()", "run", "--max-children", str(workers))

    def codes(self) -> Codes:
        """Every mutant's exit code."""
        return {name: code for file in self.files for name, code in self._record(file)["exit_code_by_key"].items()}

    def mutated(self, file: Path) -> Path:
        """The file of the folder that holds a source file's functions with all their mutants."""
        return self.folder / "mutants" / file

    def _change(self, rule: Callable[[str, int | None], int | None]) -> None:
        for file in self.files:
            record = self._record(file)
            record["exit_code_by_key"] = {name: rule(name, code) for name, code in record["exit_code_by_key"].items()}
            self._record_path(file).write_text(json.dumps(record, indent=4))

    def _record(self, file: Path) -> dict[str, Any]:
        """mutmut's own record of a file."""
        path = self._record_path(file)
        return json.loads(path.read_text()) if path.is_file() else {"exit_code_by_key": {}}

    def _record_path(self, file: Path) -> Path:
        return self.mutated(file).with_name(f"{file.name}.meta")

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
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
