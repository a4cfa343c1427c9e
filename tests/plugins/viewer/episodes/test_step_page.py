"""The page of a step: its table equals the file, keeps its order in the address, and lists dropped episodes apart."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

Open = Callable[..., Any]
Arrive = Callable[[Any, str], None]


def cells(page: Any) -> list[list[str]]:
    rows = page.get_by_role("table", name="Groups").locator("tbody tr.link")
    return [[" ".join(text.split()) for text in row.locator("td").all_inner_texts()] for row in rows.all()]


def test_groups_equal_the_file(open_page: Open, recorded: Path) -> None:
    rows = pq.read_table(recorded / "grpo/trajectories/step_000001.parquet").to_pylist()
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["task_id"], []).append(row)
    page = open_page("#/runs/grpo/steps/1")
    shown = cells(page)
    assert len(shown) == len(groups)
    for line, group in zip(shown, groups.values(), strict=True):
        returns = [row["return"] for row in group]
        assert [float(text) for text in line[1].split()] == pytest.approx(returns, rel=5e-2)
        assert float(line[2]) == pytest.approx(statistics.fmean(returns), rel=5e-3)
        assert float(line[3]) == pytest.approx(statistics.stdev(returns), rel=5e-3)
        assert float(line[5]) == pytest.approx(statistics.fmean(len(row["ids"]) for row in group), rel=5e-4)


def test_dropped_episodes_stand_apart_with_their_reason(open_planted: Open, arrive: Arrive) -> None:
    page = open_planted("steps/2")
    dropped = page.get_by_role("table", name="Dropped episodes").locator("tbody tr.link")
    assert dropped.count() == 1
    assert "the tool 'sextant' was lost at sea" in dropped.inner_text()
    assert all("wreck" not in line[0] for line in cells(page))
    dropped.get_by_role("link").click()
    arrive(page, "episode 6 of step 2")


def test_a_step_that_is_recorded_becomes_the_next_one_and_may_be_played_again(
    open_page: Open, planted: Path, tmp_path: Path, serve: Any, arrive: Arrive
) -> None:
    run = tmp_path / "planted"
    shutil.copytree(planted, run)
    with serve(run) as address:
        page = open_page("#/runs/planted/steps/3", at=address)
        onward = page.get_by_role("link", name="next")
        assert onward.count() == 0
        shutil.copy(run / "trajectories/step_000002.parquet", run / "trajectories/step_000004.parquet")
        onward.wait_for()
        onward.click()
        arrive(page, "step 4")
        assert len(cells(page)) == 2
        # A run that was resumed has played the step again.
        again = shutil.copy(run / "trajectories/step_000003.parquet", run / "trajectories/again")
        again.replace(run / "trajectories/step_000004.parquet")
        page.get_by_text("4 groups").wait_for()
        assert len(cells(page)) == 4
