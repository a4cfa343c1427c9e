"""A short form of each part of the torture breaks nothing; a part that misses what it attacks says so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from planting import plant

SHARES = {"threads": 0.05, "processes": 0.03, "files": 0.02, "soak": 0.04, "kills": 0.02, "crash points": 0.002}


COLD = ("kills", "crash points", "processes")
"""Parts that kill processes of theirs."""
MISSES = (
    ("soak", "soak.py", '\nNAME = "wiki_search"', '\nNAME = "moody"', "the tool"),
    (
        "threads",
        "tools.py",
        'ToolCall("hostile", {"kind": kind,',
        'ToolCall("hostle", {"kind": kind,',
        "the tool (hang)",
    ),
    ("threads", "tools.py", "(attacks[nonce].action, harmless,", "(harmless, harmless,", "the tool format"),
    (
        "files",
        "file_kinds.py",
        'Kind(folder / "qa.jsonl", tasks("qa"))',
        'Kind(folder / "qa.jsonl", str)',
        "what reads qa",
    ),
)
"""Part, file, what stands there, what a slip would make of it, and what is then not reached any more."""


def torture(python: str | Path, root: Path, part: str, share: float) -> subprocess.CompletedProcess[str]:
    command = [str(python), str(root / "scripts" / "torture.py"), "--parts", part, "--share", str(share)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("part", list(SHARES))
def test_nothing_breaks(root: Path, part: str, warm: Path) -> None:
    done = torture(sys.executable if part in COLD else warm, root, part, SHARES[part])
    assert done.returncode == 0, done.stderr
    assert f"| {part} | " in done.stdout
    assert "0 faults" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("part", "file", "old", "new", "target"), MISSES)
def test_an_attack_that_misses_is_told(
    root: Path, tmp_path: Path, warm: Path, part: str, file: str, old: str, new: str, target: str
) -> None:
    shutil.copytree(root / "scripts", tmp_path / "scripts")
    plant(tmp_path / "scripts" / "attacks", file, old, new)
    done = torture(warm, tmp_path, part, min(SHARES[part], 0.05))
    assert done.returncode == 1, done.stderr
    assert f"\n  {target}" in done.stderr
    assert "was never reached" in done.stderr
