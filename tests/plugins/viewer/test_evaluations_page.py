"""The matrix of evaluations: its cells, counts and links equal the files."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from playwright.sync_api import expect

Open = Callable[..., Any]


def episodes(run: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The recorded episodes of a run's evaluations: evaluation, task, record."""
    found = {}
    for path in sorted((run / "evaluations").glob("step_*.jsonl")):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.stem] = {record["task"]: record for record in records}
    return found


def test_cells_counts_and_links_equal_the_files(open_page: Open, recorded: Path) -> None:
    page = open_page("#/runs/grpo/evaluations?order=asked")
    found = episodes(recorded / "grpo")
    names, tasks = list(found), list(found["step_000000"])
    right = {task: [found[name][task]["rewards"]["exact_match"] == 1.0 for name in names] for task in tasks}
    titles = {task: f"{one['question']} → {' | '.join(one['answers'])}" for task, one in found["step_000000"].items()}
    table = page.get_by_role("region", name="Scores")
    rows = table.locator("tbody tr")
    assert rows.locator("th").all_inner_texts() == list(titles.values())
    for column, name in enumerate(names):
        ids = pyarrow.parquet.read_table(recorded / "grpo" / "evaluations" / f"{name}.parquet")["task_id"].to_pylist()
        for row, task in zip(rows.all(), tasks, strict=True):
            cell = row.locator("td:not(.change)").nth(column)
            assert cell.inner_text() == ("✓" if right[task][column] else "✕")
            link = cell.locator("a").get_attribute("href")
            number = re.fullmatch(rf"#/runs/grpo/evaluations/{name}/episodes/(\d+)", link)[1]
            assert ids[int(number)] == task
    heads = [text.split() for text in table.locator("thead th").all_inner_texts()[2:]]
    for (step, mean), name in zip(heads, names, strict=True):
        exact = json.loads((recorded / "grpo" / "evaluations" / f"{name}.json").read_text())
        assert int(step) == exact["step"]
        assert float(mean) == pytest.approx(exact["metrics"]["exact_match"]["mean"], abs=6e-4)
    changes = {(False, True): "learnt", (True, False): "forgotten", (True, True): "right", (False, False): "wrong"}
    for ends, change in changes.items():
        of = [task for task in tasks if (right[task][0], right[task][-1]) == ends]
        button = page.locator(f"[data-change={change}]")
        assert button.inner_text().split()[-1] == str(len(of))
        button.click()
        assert rows.locator("th").all_inner_texts() == [titles[task] for task in of]
    assert "change=wrong" in page.url


def test_a_score_and_a_filter_stay_in_the_address_and_arrows_lead_on(open_page: Open, recorded: Path) -> None:
    page = open_page("#/runs/ppo/evaluations")
    found = episodes(recorded / "ppo")
    page.get_by_role("combobox", name="Score").select_option("format")
    page.wait_for_url("**score=format**")
    rows = page.locator(".matrix tbody tr")
    mean = statistics.mean(one["rewards"]["format"] for one in found["step_000000"].values())
    expect(page.locator(".matrix thead th").nth(2)).to_contain_text(f"{mean:.3f}")
    question = next(iter(found["step_000000"].values()))["question"]
    page.get_by_label("Filter questions").fill(question)
    page.reload()
    expect(rows).to_have_count(1)
    assert page.get_by_role("combobox", name="Score").input_value() == "format"
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("ArrowRight")
    assert page.locator(":focus").get_attribute("aria-label").startswith("step 1: ")
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/runs/ppo/evaluations/step_000001/episodes/**")


def test_what_is_learnt_is_told_by_half_of_the_range_that_scores_have(open_page: Open) -> None:
    """Questions that were not asked in an evaluation count from the first in which they were."""
    matrices = [
        ([[0.49, 0.5], [0.5, 0.49], [None, None], [None, 0.2, None, 0.7]], ["learnt", "forgotten", None, "learnt"]),
        ([[-3.0, -1.0], [-1.9, -2.1], [-1.0, -2.0]], ["learnt", "forgotten", "right"]),
        ([[4.0, 1.0], [1.9, 2.0]], ["forgotten", "learnt"]),
    ]
    found = open_page().evaluate(
        """async (matrices) => {
          const { reading } = await import("viewer/lib/learnt.js");
          return matrices.map((cells) => cells.map(reading(cells).change));
        }""",
        [cells for cells, _ in matrices],
    )
    assert found == [changes for _, changes in matrices]
