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

from agent_r1_core.runs.run import Run

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


def test_what_fails_now_comes_first_and_of_that_what_always_failed(
    open_page: Open, show: Callable[[Path], str], recorded: Path, tmp_path: Path
) -> None:
    run = tmp_path / "grpo"
    shutil.copytree(recorded / "grpo", run, ignore=shutil.ignore_patterns("checkpoints"))
    asked: list[str] = []
    for path in sorted((run / "evaluations").glob("step_*.jsonl")):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        for place, record in enumerate(records):
            last = path.stem == "step_000003"
            wrong = place == 7 or (place == 4 and last) or (place == 2 and not last)
            record["rewards"]["exact_match"] = 0.0 if wrong else 1.0
        asked = [record["question"] for record in records]
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        about = json.loads(path.with_suffix(".json").read_text())
        about["episodes"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        path.with_suffix(".json").write_text(json.dumps(about))
    page = open_page("#/runs/grpo/evaluations", at=show(run))
    shown = [text.split(" →")[0] for text in page.locator(".matrix tbody th").all_inner_texts()]
    assert shown[:3] == [asked[7], asked[4], asked[2]]
    assert shown[3:] == [question for place, question in enumerate(asked) if place not in (7, 4, 2)]
    page.get_by_label("Order").select_option("asked")
    assert [text.split(" →")[0] for text in page.locator(".matrix tbody th").all_inner_texts()] == asked


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


def test_a_run_without_evaluations_says_how_to_get_some_or_waits(
    open_page: Open, show: Callable[[Path], str], recorded: Path, tmp_path: Path
) -> None:
    run = tmp_path / "plain"
    shutil.copytree(recorded / "grpo", run, ignore=shutil.ignore_patterns("checkpoints", "evaluations"))
    with Run.create(tmp_path, "begun", {}, []):
        address = show(tmp_path)
        page = open_page("#/runs/plain/evaluations", at=address)
        expect(page.locator(".empty")).to_have_text(f"This run has no evaluations; agent-r1 eval {run} makes one.")
        page = open_page("#/runs/begun/evaluations", at=address)
        expect(page.locator(".empty")).to_have_text("This run has no evaluations yet.")


def test_scores_that_are_no_numbers_leave_the_others_as_they_are(page: Any) -> None:
    read = page.evaluate(
        """async () => {
          const { reading } = await import("viewer/lib/learnt.js");
          const { share, change } = reading([["NaN", 1], [0, "NaN"], [0, 1]]);
          const { process, signed } = await import("viewer/lib/rewards.js");
          const sum = (...rewards) => signed(process(rewards.map((reward) => ({ reward }))));
          const sums = [sum(0, "NaN", 0.5), sum(-0, 0), sum(1, -0.25)];
          return [share(0), share(1), change(["NaN", 1]), change([0, "NaN", 1]), change(["NaN"]), ...sums];
        }"""
    )
    assert read == [0, 1, "right", "learnt", None, "NaN", "0", "+0.75"]


def test_questions_without_a_score_come_last(open_page: Open) -> None:
    page = open_page("#/runs/grpo/evaluations?order=low")
    answer = page.request.get(page.url.split("#")[0] + "api/runs/grpo/evaluations").json()
    columns = len(answer["evaluations"])
    answer["cells"] = [[score] * columns for score in (None, -1, 1, *[0] * 9)]
    unscored, worst, best = (one["question"] for one in answer["questions"][:3])
    page.route("**/api/runs/grpo/evaluations", lambda route: route.fulfill(json=answer))
    page.reload()
    first, last = (page.locator(".matrix tbody th bdi:first-of-type").nth(place) for place in (0, -1))
    for order, expected in (("low", worst), ("high", best)):
        page.get_by_label("Order").select_option(order)
        expect(first).to_have_text(expected)
        expect(last).to_have_text(unscored)


def test_a_score_that_cannot_be_had_leaves_the_matrix_as_it_is(open_page: Open, watched: Any) -> None:
    watched.expected.append("ERR_FAILED")
    page = open_page("#/runs/grpo/evaluations")
    page.route("**/evaluations?score=format", lambda route: route.abort())
    score = page.get_by_role("combobox", name="Score")
    score.select_option("format")
    expect(score).to_have_value("exact_match")
    page.get_by_label("Filter questions").fill("no such words")
    expect(page.locator(".matrix tbody tr")).to_have_count(0)
    page.get_by_label("Filter questions").fill("")
    expect(page.locator(".matrix tbody tr")).to_have_count(12)


def test_back_from_an_episode_leads_to_the_questions_that_were_in_sight(open_page: Open) -> None:
    page = open_page("#/runs/grpo/evaluations")
    page.set_viewport_size({"width": 1280, "height": 330})
    page.wait_for_selector(".matrix tbody td a")
    scroll = "matrix.addEventListener('scrollend', done); matrix.scrollTo(0, 1000);"
    page.locator(".matrix").evaluate(f"(matrix) => new Promise((done) => {{ {scroll} }})")
    top = "(matrix) => matrix.scrollTop"
    scrolled = page.locator(".matrix").evaluate(top)
    assert scrolled > 0
    last = page.locator(".matrix tbody tr").last.locator("a").last
    last.click()
    page.wait_for_url("**/episodes/**")
    page.wait_for_selector(".page.episode")
    page.go_back()
    page.wait_for_selector(".matrix tbody td a")
    assert page.locator(".matrix").evaluate(top) == scrolled
    drawn = page.evaluate(
        """async () => {
          const { matrix } = await import("viewer/lib/matrix.js");
          const evaluations = [{ name: "step_000001", step: 1, n: 700 }];
          const grid = matrix({ evaluations, share: Number, link: () => null });
          const question = { question: "?", set: "", task: "", answers: [], cells: [1], predictions: [null] };
          document.getElementById("page").replaceChildren(grid);
          grid.update(new Array(700).fill(question), [1]);
          history.replaceState({ matrix: [0, 12000] }, "");
          grid.shown();
          return [grid.scrollTop, grid.querySelectorAll("tbody tr").length];
        }"""
    )
    assert drawn[0] == 12000
    assert drawn[1] < 700, "no more are drawn than it takes"


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
