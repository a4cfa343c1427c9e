"""Every law's test catches its planted faults: a copy of the source is broken on purpose, and the test must fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from mutations import MUTATIONS, Mutation

COPIED = (
    "agent_r1_core",
    "agent_r1_cli",
    "plugins",
    "recipes",
    "templates",
    "tests/laws",
    "tests/yardstick",
    "tests/conftest.py",
    "tests/fixtures/chat_templates",
    "pyproject.toml",
)
LAWS = range(1, 13)
SLIPS = re.compile(r"\b(NameError|UnboundLocalError|ImportError|SyntaxError|IndentationError)\b")
"""What a fault would raise that breaks more than its law."""


@dataclass
class LawRunner:
    """Runs laws' tests in copies of the source, by the process of `law_runner.py`."""

    process: subprocess.Popen[str]

    def run(self, folder: Path, law: int, tests: str, *options: str) -> tuple[int, str]:
        """Run those of a law's tests that `tests` selects; returns pytest's exit code and what it said."""
        files = sorted(str(path) for path in (folder / "tests" / "laws").glob(f"test_law_{law:02d}_*.py"))
        assert files, f"law {law} has no test"
        arguments = ["-rfE", "-p", "no:cacheprovider", "-p", "no:xdist", *options, *files]
        if tests:
            arguments += ["-k", tests]
        output = folder / "output.txt"
        job = {"folder": str(folder), "arguments": arguments, "output": str(output)}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return code, output.read_text(errors="replace")


@pytest.fixture(scope="module")
def runner(root: Path) -> Iterator[LawRunner]:
    command = [sys.executable, str(root / "tests" / "laws" / "law_runner.py")]
    impatient = {**os.environ, "LAWS_PATIENCE": "8"}  # many faults make a call hang
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", env=impatient
    ) as process:
        yield LawRunner(process)


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of everything that the laws' tests need, compiled files included: they carry the times of their sources,
    so that those of a broken file are void."""
    for name in COPIED:
        source, target = root / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.pyc.[0-9]*"))
        else:
            shutil.copy2(source, target)
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"law{mutation.law:02d}-{mutation.name}")
def test_the_laws_test_sees_the_fault(mutation: Mutation, copy: Path, runner: LawRunner) -> None:
    file = copy / mutation.file
    text = file.read_text()
    assert text.count(mutation.old) == 1, f"{mutation.file} no longer holds the text that this fault replaces; mend it"
    file.write_text(text.replace(mutation.old, mutation.new))
    code, said = runner.run(copy, mutation.law, mutation.tests, "-x")
    assert code == 1, f"the law's test did not notice the fault:\n{said[-4000:]}"
    assert "\nFAILED tests/laws/test_law_" in said, f"something else than the law's test failed:\n{said[-4000:]}"
    assert "\nERROR " not in said, f"the law's test did not come to run:\n{said[-4000:]}"
    assert not SLIPS.search(said), f"the fault itself is written wrongly:\n{said[-4000:]}"


@pytest.mark.parametrize("law", range(1, 13))
def test_without_a_fault_the_same_tests_pass(law: int, copy: Path, runner: LawRunner) -> None:
    chosen = sorted({mutation.tests or "law" for mutation in MUTATIONS if mutation.law == law})
    assert chosen, f"law {law} has no planted fault"
    code, said = runner.run(copy, law, " or ".join(f"({tests})" for tests in chosen))
    assert code == 0, said
