"""Plants a fault in a copy of the source, and runs there the tests that must notice it."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = ("agent_r1_core", "agent_r1_cli", "plugins", "recipes", "templates", "tests/conftest.py", "pyproject.toml")
"""What every copy holds."""
SLIPS = re.compile(r"\b(NameError|UnboundLocalError|ImportError|SyntaxError|IndentationError)\b")
"""What a fault would raise that breaks more than it should."""


@dataclass
class Runner:
    """Runs tests in copies of the source, by the process of `law_runner.py`."""

    process: subprocess.Popen[str]

    def run(self, folder: Path, files: Iterable[Path], tests: str, *options: str) -> tuple[int, str]:
        """Run those tests of a copy's files that `tests` selects; returns pytest's exit code and what it said."""
        arguments = ["-rfE", "-p", "no:cacheprovider", *options, *map(str, files)]
        if tests:
            arguments += ["-k", tests]
        output = folder / "output.txt"
        job = {"folder": str(folder), "arguments": arguments, "output": str(output)}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return code, output.read_text(errors="replace")


@contextmanager
def runner() -> Iterator[Runner]:
    """The process that runs the tests."""
    command = [sys.executable, str(Path(__file__).with_name("law_runner.py"))]
    impatient = {**os.environ, "LAWS_PATIENCE": "8"}  # many faults make a call hang
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", env=impatient
    ) as process:
        yield Runner(process)


@contextmanager
def copied(root: Path, folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """A copy of the source and of these tests, compiled files included: they carry the times of their sources, so that
    those of a broken file are void. Its files are links to those of one copy that all tests share."""
    shutil.copytree(_shared(root, (*SOURCE, *names)), folder, copy_function=os.link, dirs_exist_ok=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@cache
def _shared(root: Path, names: tuple[str, ...]) -> Path:
    """The copy that nobody changes; it goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="planting-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in names:
        source, target = root / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.pyc.[0-9]*"))
        else:
            shutil.copy2(source, target)
    return folder


def plant(copy: Path, name: str, old: str, new: str) -> None:
    """Replace, in a file of the copy, a text that stands there exactly once."""
    file = copy / name
    text = file.read_text()
    assert text.count(old) == 1, f"{name} no longer holds the text that this fault replaces; mend it"
    file.unlink()  # what it links to stays whole
    file.write_text(text.replace(old, new))


def check_noticed(code: int, said: str, tests: str) -> None:
    """See that tests of the files that begin with `tests` failed, and of nothing but the fault."""
    assert code == 1, f"the test did not notice the fault:\n{said[-4000:]}"
    assert f"\nFAILED {tests}" in said, f"something else than the right test failed:\n{said[-4000:]}"
    assert "\nERROR " not in said, f"the test did not come to run:\n{said[-4000:]}"
    assert not SLIPS.search(said), f"the fault itself is written wrongly:\n{said[-4000:]}"
