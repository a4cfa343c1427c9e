"""The matrix of evaluations: its cells, counts and links equal the files."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
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


def test_another_score_an_order_and_a_filter_stay_in_the_address_and_arrows_lead_to_an_episode(
    open_page: Open, recorded: Path
) -> None:
    page = open_page("#/runs/ppo/evaluations")
    found = episodes(recorded / "ppo")
    tasks = list(found["step_000000"])
    page.get_by_role("combobox", name="Score").select_option("format")
    page.wait_for_url("**score=format**")
    rows = page.locator(".matrix tbody tr")
    mean = statistics.mean(one["rewards"]["format"] for one in found["step_000000"].values())
    format_scores = [found[name][tasks[0]]["rewards"]["format"] for name in found]
    expect(page.locator(".matrix thead th").nth(2)).to_contain_text(f"{mean:.3f}")
    shown = [
        1.0 if sign == "✓" else 0.0 if sign == "✕" else float(sign)
        for sign in rows.first.locator("td:not(.change)").all_inner_texts()
    ]
    assert shown == pytest.approx(format_scores, abs=0.006)
    answer = found["step_000000"][tasks[3]]["answers"][0]
    page.get_by_label("Filter questions").fill(answer)
    page.get_by_label("Order").select_option("low")
    page.reload()
    page.wait_for_selector(".matrix tbody tr")
    matching = [
        one
        for one in found["step_000000"].values()
        if answer.lower() in json.dumps(one["answers"] + [one["question"], one["task"]]).lower()
    ]
    assert rows.count() == len(matching) >= 1
    assert page.get_by_role("combobox", name="Score").input_value() == "format"
    page.locator("h1").click()
    page.keyboard.press("g")
    page.keyboard.press("ArrowRight")
    given = page.locator(":focus").get_attribute("aria-label")
    assert given.startswith("step 1: ")
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/runs/ppo/evaluations/step_000001/episodes/**")


def test_one_of_several_sets_is_chosen_and_has_means_of_its_own(
    open_page: Open, show: Callable[[Path], str], recorded: Path, tmp_path: Path
) -> None:
    """The sets are named here: each is half of the questions that were asked. Answers differ from evaluation to
    evaluation, and so do the rows of their episodes."""
    run = tmp_path / "sets"
    shutil.copytree(recorded / "grpo", run, ignore=shutil.ignore_patterns("checkpoints"))
    halves: dict[str, list[float]] = {"near": [], "far": []}
    rows_of: dict[str, list[str]] = {}
    for path in sorted((run / "evaluations").glob("step_*.jsonl")):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        for place, record in enumerate(records):
            record["set"], record["prediction"] = "far" if place % 2 else "near", f"{path.stem} {place}"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        about = json.loads(path.with_suffix(".json").read_text())
        about["episodes"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        about["trajectories"] = dict.fromkeys(halves, f"{path.stem}.parquet")
        kept = pyarrow.parquet.read_table(path.with_suffix(".parquet"))
        kept = kept.slice(len(rows_of)).take(pyarrow.array(range(len(kept) - len(rows_of))))
        rows_of[path.stem] = kept.column("task_id").to_pylist()
        pyarrow.parquet.write_table(kept, path.with_suffix(".parquet"))
        path.with_suffix(".json").write_text(json.dumps(about))
        for name, scores in halves.items():
            scores.append(statistics.mean(one["rewards"]["exact_match"] for one in records if one["set"] == name))
    page = open_page("#/runs/sets/evaluations?order=asked", at=show(run))
    rows = page.locator(".matrix tbody tr")
    expect(rows).to_have_count(12)
    assert rows.first.locator("th").inner_text().startswith("near: ")
    cells = rows.nth(5).locator("td:not(.change) a")
    for column, (name, tasks) in enumerate(rows_of.items()):
        assert cells.nth(column).get_attribute("aria-label").endswith(f", answered {name} 5")
        address = f"#/runs/sets/evaluations/{name}/episodes/{tasks.index(records[5]['task'])}?set=far"
        assert cells.nth(column).get_attribute("href") == address
    page.get_by_role("combobox", name="Set").select_option("far")
    expect(rows).to_have_count(6)
    means = [float(text.split()[-1]) for text in page.locator(".matrix thead th").all_inner_texts()[2:]]
    assert means == pytest.approx(halves["far"], abs=6e-4)
    assert "set=far" in page.url


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
