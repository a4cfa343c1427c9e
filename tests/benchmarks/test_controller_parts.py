"""What stands beside the simulated steps: Ray's own calls and their line, arrays in place of lists."""

from __future__ import annotations

import json
import math
import os
import random
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


def test_the_line_through_real_actors_is_drawn_out_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import ray_share

    rows = [{"actors": n, "ms/s": 4.0 + 6.0 * n, "reports/s": 10.0 * n} for n in (1, 2, 4, 8)]
    first, second = ray_share.extrapolated(rows)
    assert (first["actors"], second["actors"]) == ("256, extrapolated", "512, extrapolated")
    assert first["ms/s"] == pytest.approx(4 + 6 * 256)
    assert second["ms/report"] == pytest.approx((4 + 6 * 512) / 5120)
    assert first["r2 of the line"] == pytest.approx(1)


def test_arrays_hold_the_same_numbers_and_are_written_alike(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import packed
    import pyarrow.parquet as pq

    lists = [packed.LOADS["default"].trajectory(random.Random(seed)).segments[0] for seed in range(5)]
    written = []
    for kind in (lists, [packed.packed_segment(one) for one in lists]):
        packed.write({name: [getattr(one, name) for one in kind] for name in ("ids", "mask", "logprobs")}, tmp_path)
        written.append(pq.read_table(tmp_path / "columns.parquet").to_pylist())
    assert [row["ids"] for row in written[0]] == [one.ids for one in lists]
    assert written[0] == written[1]


@pytest.mark.slow
def test_arrays_beside_lists(root: Path, tmp_path: Path) -> None:
    rows = quick(root, tmp_path, "packed")["rows"]
    assert [row["numbers in"] for row in rows[:2]] == ["lists", "arrays"]
    lists, arrays = rows[-2:]
    assert arrays["KB in memory"] < lists["KB in memory"] / 2
    assert arrays["KB sent"] < lists["KB sent"]


@pytest.mark.slow
def test_real_actors_report(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    tables = quick(root, tmp_path, "ray_share")
    assert [row["actors"] for row in tables["rows"]] == [1, 2]
    for row in (*tables["rows"], *tables["extrapolated"], *tables["calls"]):
        assert all(math.isfinite(value) and value > 0 for value in row.values() if isinstance(value, float)), row
