"""Every benchmark starts, in its quick form where that is short. How fast anything is, is not tested."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "benchmarks").glob("*.py"))
SCRIPTS = [path.stem for path in SOURCES if re.search(r"report\.parser\(__doc__", path.read_text())]
QUICK = ("rollout", "learner", "limit", "parts", "gpu", "search_service", "frozen_lake")
"""Those of which nothing else runs what they measure, and that need no other environment."""


def run(script: str, *arguments: str | Path, python: str | Path) -> subprocess.CompletedProcess[str]:
    code = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    return subprocess.run(
        [python, ROOT / "benchmarks" / f"{script}.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": code},
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_help_says_what_a_benchmark_asks(script: str, warm: Path) -> None:
    done = run(script, "--help", python=warm)
    assert done.returncode == 0, done.stderr
    assert "?" in done.stdout.split("\n\n")[1]


def test_both_sides_of_the_comparison_describe_the_same_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.utils import get_json_schema

    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from multiply import Multiply
    from peer_trl import multiply

    assert Multiply().schema() == get_json_schema(multiply)


@pytest.mark.slow
@pytest.mark.parametrize("script", QUICK)
def test_the_quick_form_prints_a_table_and_writes_it(script: str, tmp_path: Path, warm: Path) -> None:
    done = run(script, "--quick", "--out", tmp_path / "results.json", python=warm)
    assert done.returncode == 0, done.stderr
    assert "|---" in done.stdout
    assert json.loads((tmp_path / "results.json").read_text())["machine"]["torch"]
