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
    table = page.get_by_role("region", name="Scores")
    rows = table.locator("tbody tr")
    assert rows.count() == len(tasks) == 12
    for row, task in zip(rows.all(), tasks, strict=True):
        asked = found["step_000000"][task]
        assert row.locator("th").inner_text() == f"{asked['question']} → {' | '.join(asked['answers'])}"
        signs = row.locator("td:not(.change)").all_inner_texts()
        assert signs == ["✓" if one else "✕" for one in right[task]]
    heads = [text.split() for text in table.locator("thead th").all_inner_texts()[2:]]
    for (step, mean), name in zip(heads, names, strict=True):
        exact = json.loads((recorded / "grpo" / "evaluations" / f"{name}.json").read_text())
        assert int(step) == exact["step"]
        assert float(mean) == pytest.approx(exact["metrics"]["exact_match"]["mean"], abs=6e-4)
    changes = {
        "learnt": [task for task in tasks if right[task][-1] and not right[task][0]],
        "forgotten": [task for task in tasks if right[task][0] and not right[task][-1]],
        "right": [task for task in tasks if right[task][0] and right[task][-1]],
        "wrong": [task for task in tasks if not right[task][0] and not right[task][-1]],
    }
    for change, of in changes.items():
        button = page.locator(f"[data-change={change}]")
        assert button.inner_text().split()[-1] == str(len(of))
        button.click()
        assert rows.locator("th").all_inner_texts() == [
            f"{found[names[0]][task]['question']} → {' | '.join(found[names[0]][task]['answers'])}" for task in of
        ]
    assert "change=wrong" in page.url
    page.locator("[data-change=all]").click()
    for column, name in enumerate(names):
        table_of_rows = pyarrow.parquet.read_table(recorded / "grpo" / "evaluations" / f"{name}.parquet")
        ids = table_of_rows.column("task_id").to_pylist()
        for row, task in zip(rows.all(), tasks, strict=True):
            link = row.locator("td:not(.change)").nth(column).locator("a").get_attribute("href")
            number = re.fullmatch(rf"#/runs/grpo/evaluations/{name}/episodes/(\d+)", link)[1]
            assert ids[int(number)] == task


def test_another_score_and_a_filter_stay_in_the_address_and_arrows_lead_to_an_episode(
    open_page: Open, recorded: Path
) -> None:
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
        (
            [[0.49, 0.5], [0.5, 0.49], [None, None], [None, 0.2, None, 0.7, None]],
            ["learnt", "forgotten", None, "learnt"],
        ),
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
