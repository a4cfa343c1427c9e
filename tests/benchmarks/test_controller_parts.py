"""What stands beside the simulated steps: Ray's own calls, and what packing costs and saves."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def quick(root: Path, tmp_path: Path, script: str) -> Any:
    """The tables that a script writes in its quick form."""
    out = tmp_path / "results.json"
    code = os.pathsep.join([str(root), str(root / "plugins")])
    done = subprocess.run(
        [sys.executable, root / "benchmarks" / f"{script}.py", "--quick", "--out", out],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": code},
    )
    assert done.returncode == 0, done.stderr
    assert "|---" in done.stdout
    return json.loads(out.read_text())


@pytest.mark.slow
def test_packed_episodes_beside_ordinary_ones(root: Path, tmp_path: Path) -> None:
    rows = quick(root, tmp_path, "packed")["rows"]
    assert [row["form"] for row in rows[:2]] == ["ordinary", "packed"]
    ordinary, packed = rows[-2:]
    assert packed["KB in memory"] < ordinary["KB in memory"] / 2
    assert packed["KB sent"] < ordinary["KB sent"]


@pytest.mark.slow
def test_real_actors_report(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    tables = quick(root, tmp_path, "ray_share")
    assert [row["workers"] for row in tables["rows"]] == [1, 2]
    for row in (*tables["rows"], *tables["calls"]):
        assert all(math.isfinite(value) and value > 0 for value in row.values() if isinstance(value, float)), row
