"""Every law's test catches its planted faults: a copy of the source is broken on purpose, and the test must fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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
    "tests/conftest.py",
    "pyproject.toml",
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"law{mutation.law:02d}-{mutation.name}")
def test_the_laws_test_sees_the_fault(mutation: Mutation, root: Path, tmp_path: Path) -> None:
    for name in COPIED:
        source, target = root / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    file = tmp_path / mutation.file
    text = file.read_text()
    assert text.count(mutation.old) == 1, f"{mutation.file} no longer holds the text that this fault replaces; mend it"
    file.write_text(text.replace(mutation.old, mutation.new))
    done = _run_law(mutation, tmp_path)
    assert done.returncode == 1, (
        f"the law's test did not notice the fault:\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}"
    )


def test_every_law_has_a_test_and_a_planted_fault(root: Path) -> None:
    for law in range(1, 13):
        assert list((root / "tests" / "laws").glob(f"test_law_{law:02d}_*.py")), f"law {law} has no test"
        assert any(mutation.law == law for mutation in MUTATIONS), f"law {law} has no planted fault"


def _run_law(mutation: Mutation, folder: Path) -> subprocess.CompletedProcess[str]:
    files = sorted(str(path) for path in (folder / "tests" / "laws").glob(f"test_law_{mutation.law:02d}_*.py"))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    if mutation.tests:
        command += ["-k", mutation.tests]
    path = os.pathsep.join([str(folder), str(folder / "plugins")])
    environment = {**os.environ, "PYTHONPATH": path, "AGENT_R1_REAL_DATA": os.environ.get("AGENT_R1_REAL_DATA", "")}
    if not environment["AGENT_R1_REAL_DATA"]:
        environment.pop("AGENT_R1_REAL_DATA")
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
