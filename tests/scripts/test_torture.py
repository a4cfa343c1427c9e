"""A short form of each part of the torture breaks nothing, and reaches what it attacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SHARES = {"threads": 0.05, "processes": 0.03, "files": 0.02, "soak": 0.04, "kills": 0.02, "crash points": 0.002}
COLD = ("kills", "crash points", "processes")
"""Parts that kill processes of theirs."""


@pytest.mark.slow
@pytest.mark.parametrize("part", list(SHARES))
def test_nothing_breaks(root: Path, part: str, warm: Path) -> None:
    python = sys.executable if part in COLD else warm
    command = [python, root / "scripts" / "torture.py", "--parts", part, "--share", str(SHARES[part])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert f"| {part} | " in done.stdout
    assert "0 faults" in done.stderr
