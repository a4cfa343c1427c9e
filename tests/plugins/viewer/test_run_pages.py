"""The list of runs, the pages of one and of several, and evaluations: their numbers equal the files."""

from __future__ import annotations

import itertools
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
ENDS = re.compile(r"eval/.*_(low|high)$")


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_charts_evaluations_and_settings_equal_the_files(open_page: Open, recorded: Path) -> None:
    page, run = open_page("#/runs/ppo"), recorded / "ppo"
    page.wait_for_selector(".chart canvas")
    page.locator("h1").click()
    page.keyboard.press("o")  # unfolds all
    charts = {chart.get_attribute("data-metric"): chart for chart in page.locator(".chart").all()}
    last = {key: (line["step"], value) for line in metrics(run) for key, value in line.items() if key != "step"}
    assert set(charts) == {key for key in last if not ENDS.match(key)}
    for chart in charts.values():
        chart.scroll_into_view_if_needed()
        chart.locator("canvas").wait_for()
    for key, chart in charts.items():
        step, number = re.match(r"step (\d+): (\S+)", chart.locator(".readout").inner_text()).groups()
        assert int(step) == last[key][0], key
        assert float(number.replace(",", "")) == pytest.approx(last[key][1], rel=1e-3, abs=1e-12), key
    meanings = {one["name"]: one["meaning"] for one in json.loads((run / "metric_catalogue.json").read_text())}
    for key, declared in {"reward/mean": "reward/mean", "reward/format": "reward/<name>"}.items():
        assert meanings[declared] in charts[key].locator("figcaption").get_attribute("title")
    expected = []
    for path in sorted((run / "evaluations").glob("*.json")):
        evaluation = json.loads(path.read_text())
        score = evaluation["metrics"]["exact_match"]
        interval = f"{score['mean']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"
        expected.append([path.stem, str(evaluation["step"]), "exact_match", interval, "12"])
    rows = page.locator("[data-part=evaluations] tbody").inner_text().splitlines()
    assert [row.split("\t") for row in rows] == expected
    settings = page.locator("[data-part=configuration]")
    settings.get_by_role("searchbox").fill("override training.steps")
    assert settings.locator("tbody tr").all_inner_texts() == ["training.steps\t3\toverride 'training.steps=3'"]
    settings.get_by_role("searchbox").fill("rewards.0.name")
    came = "override 'rewards=[exact_match, {name: format, weight: 0}]'"
    assert settings.locator("tbody tr").all_inner_texts() == [f"rewards.0.name\texact_match\t{came}"]
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    told = page.locator("[data-part=events] tbody tr").all_inner_texts()
    assert [row.split("\t")[-1] for row in told] == [event["text"] for event in events]


def test_controls_stay_in_the_address_and_a_click_opens_the_step(open_page: Open) -> None:
    page = open_page("#/runs/grpo")
    page.get_by_label("Filter metrics").fill("exact reward")
    charts = page.locator(".chart")
    assert [chart.get_attribute("data-metric") for chart in charts.all()] == [
        "reward/exact_match",
        "eval/reward/exact_match",
    ]
    page.get_by_label("Smoothing").fill("0.9")
    page.get_by_label("x axis").select_option("tokens")
    page.reload()
    page.wait_for_selector(".chart canvas")
    assert charts.count() == 2
    assert page.get_by_label("Smoothing").input_value() == "0.9"
    assert page.get_by_label("x axis").input_value() == "tokens"
    page.get_by_label("x axis").select_option("step")
    plot = charts.first.locator(".u-over")
    box = plot.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"zoom=1\."))
    page.get_by_role("button", name="Zoom out").click()
    expect(page).not_to_have_url(re.compile("zoom"))
    plot.click(position={"x": box["width"] / 2, "y": 60})
    page.wait_for_url("**/#/runs/grpo/steps/2")


def test_lines_are_smoothed_and_laid_over_steps_seconds_and_tokens(open_page: Open, recorded: Path) -> None:
    page = open_page("#/runs/grpo")
    lines = metrics(recorded / "grpo")
    drawn = page.evaluate(
        """async (lines) => {
          const { line, smooth } = await import("viewer/lib/series.js");
          const names = Object.keys(lines[0]);
          const values = Object.fromEntries(names.map((name) => [name, lines.map((line) => line[name] ?? null)]));
          const run = { metrics: { steps: lines.map((line) => line.step), values }, evaluations: [] };
          const xs = Object.fromEntries(["step", "time", "tokens"].map((by) => [by, line(run, "reward/mean", by).xs]));
          values["odd/one"] = lines.map((line, row) => (row === 1 ? "NaN" : 0.5));
          const { raw, odd } = line(run, "odd/one", "step");
          return { ...xs, raw, odd, smooth: smooth([1, null, 3, 2], 0.5), gaps: line(run, "reward/mean", "step").raw };
        }""",
        lines,
    )
    sampled = [line["rollout/episodes"] * line["episode/action_tokens"] for line in lines]
    assert drawn["step"] == [1, 2, 3]
    assert drawn["time"] == pytest.approx(list(itertools.accumulate(line["time/step"] for line in lines)))
    assert drawn["tokens"] == pytest.approx(list(itertools.accumulate(sampled)))
    assert drawn["smooth"] == pytest.approx([1, None, (0.25 * 1 + 0.5 * 3) / 0.75, (0.125 + 0.75 + 1) / 0.875])
    assert drawn["raw"] == [0.5, None, 0.5]
    assert drawn["odd"] == [None, "NaN", None]
    assert drawn["gaps"] == pytest.approx([line["reward/mean"] for line in lines])


def test_several_runs_are_compared_and_seeds_of_one_configuration_are_one_line_in_a_band(
    open_page: Open, show: Callable[[Path], str], recorded: Path, tmp_path: Path
) -> None:
    for seed, lr in ((0, 3e-4), (1, 3e-4), (7, 1e-3)):
        run = shutil.copytree(recorded / "grpo", tmp_path / f"seed-{seed}", ignore=shutil.ignore_patterns("check*"))
        config = (run / "config.yaml").read_text()
        config = re.sub(r"(\nrun:\n  dir: .*\n  name: ).*", rf"\g<1>seed-{seed}", config)
        config = re.sub(r"(\nseed: ).*", rf"\g<1>{seed}", config)
        (run / "config.yaml").write_text(re.sub(r"(\ntraining:\n(?:  .*\n)*?  lr: ).*", rf"\g<1>{lr}", config))
        lines = [line | {"reward/mean": (seed + 1) * line["step"] / 10} for line in metrics(run)]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = open_page("#/compare?runs=seed-0,seed-1,seed-7", at=show(tmp_path))
    readout = page.locator("[data-metric='reward/mean'] .readout")
    expect(readout).to_have_text("seed-0 (2 seeds) 0.45 seed-7 2.4 ")
    table = page.get_by_role("table", name="Compared runs")
    assert [text.strip() for text in table.locator("thead th").all_inner_texts()[5:]] == ["training.lr", "seed"]
    assert table.locator("tbody tr").nth(1).locator("td").all_inner_texts()[5:] == ["0.001", "7"]
    page.get_by_role("link", name="Draw seeds apart").click()
    expect(readout).to_have_text("seed-0 0.3 seed-1 0.6 seed-7 2.4 ")
    page.locator(".lines").get_by_label("seed-7").uncheck()
    page.reload()
    expect(readout).to_have_text("seed-0 0.3 seed-1 0.6 ")


def best_exact_match(run: Path) -> str:
    scores = [json.loads(path.read_text())["metrics"]["exact_match"] for path in (run / "evaluations").glob("*.json")]
    best = max(scores, key=lambda score: score["mean"])
    return f"{best['mean']:.3f} [{best['low']:.3f}, {best['high']:.3f}] exact_match"


def rows(page: Any) -> list[str]:
    return page.locator("tbody tr.link a.first").all_inner_texts()


def cells(page: Any, name: str) -> dict[str, str]:
    heads = [text.strip() for text in page.locator("thead th").all_inner_texts()]
    row = page.locator("tbody tr.link", has=page.get_by_role("link", name=name, exact=True))
    return dict(zip(heads, (text.strip() for text in row.locator("td").all_inner_texts()), strict=True))


def test_every_run_is_listed_with_what_its_files_say_sorted_filtered_and_chosen_in_the_address(
    open_page: Open, recorded: Path
) -> None:
    page = open_page()
    assert sorted(rows(page)) == ["grpo", "ppo", "summary"]
    shown, lines = cells(page, "ppo"), metrics(recorded / "ppo")
    expected = {"state": "✓ finished", "algorithm": "ppo", "recipe": "ppo", "model": "tiny", "steps": "3 / 3"}
    assert shown.items() >= (expected | {"best score": best_exact_match(recorded / "ppo")}).items()
    assert float(shown["time"].removesuffix(" s")) == pytest.approx(sum(line["time/step"] for line in lines), rel=0.06)
    row = page.locator("tbody tr.link", has=page.get_by_role("link", name="ppo", exact=True))
    said = re.findall(r"[\d.]+", row.get_by_role("img").get_attribute("aria-label"))
    assert [float(one) for one in said] == pytest.approx([lines[at]["reward/mean"] for at in (0, -1)], rel=2e-3)
    page = open_page()
    scores = {name: best_exact_match(recorded / name) for name in ("grpo", "ppo", "summary")}
    page.get_by_role("button", name="best score").click()
    assert [scores[name] for name in rows(page)] == sorted(scores.values(), reverse=True)
    page.get_by_role("button", name="name").press("Enter")
    assert rows(page) == ["grpo", "ppo", "summary"]
    assert page.locator("th[aria-sort=ascending]").inner_text() == "name"
    page.get_by_role("searchbox").fill("GRPO tiny")
    assert rows(page) == ["grpo", "summary"]
    page.reload()
    page.wait_for_selector("tbody tr.link")
    assert rows(page) == ["grpo", "summary"]
    page.get_by_role("searchbox").fill("")
    page.locator("h1").click()
    for key in "jxjx":
        page.keyboard.press(key)
    page.keyboard.press("c")
    page.wait_for_selector(".chart canvas")
    assert page.url.endswith("#/compare?runs=grpo%2Cppo")


def test_runs_appear_with_tags_notes_and_problems_and_every_word_is_text(
    open_page: Open, show: Callable[[Path], str], recorded: Path, tmp_path: Path
) -> None:
    home = tmp_path / "runs"
    home.mkdir()
    page = open_page(at=show(home))
    assert "agent-r1 train makes one" in page.locator(".empty").inner_text()
    shutil.copytree(recorded / "grpo", tmp_path / "whole", ignore=shutil.ignore_patterns("checkpoints"))
    hostile = (tmp_path / "whole").rename(home / "<img src=x onerror=alert(1)>")
    page.locator("tbody a").click()
    page.wait_for_selector(".chart canvas")
    page.locator("h1").click()
    page.keyboard.press("t")
    page.get_by_label("Tags").fill("paper, <b>bold")
    page.get_by_label("Note").fill("It forgets\nislands.")
    with (hostile / "health.jsonl").open("a") as file:
        file.write("{}\n")  # news leave alone what is being written
    expect(page.locator("[data-part=head] .problem").first).to_be_visible()
    assert page.get_by_label("Tags").input_value() == "paper, <b>bold"
    page.get_by_role("button", name="Save").click()
    remark = page.locator("[data-part=remark]")
    expect(remark.locator(".badge")).to_have_text(["paper", "<b>bold"])
    expect(remark.locator("pre")).to_have_text("It forgets\nislands.")
    (hostile / "config.yaml").write_text("}{")
    page.evaluate("location.hash = '#/'")
    page.wait_for_selector("tbody tr.link")
    expect(page.locator("tr.note .remark")).to_have_text("paper<b>boldIt forgets islands.")
    expect(page.locator("tbody")).to_contain_text("config.yaml is damaged")
    page.get_by_role("searchbox").fill("ISLANDS paper")
    assert rows(page) == [hostile.name]
    assert page.locator("tbody img[src]").count() == 0


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


def test_the_mean_is_that_of_the_sets_without_the_one_that_chooses(
    open_page: Open, show: Callable[[Path], str], copied: Path
) -> None:
    """Of 3 questions of `one`, 1 of `two` and 2 of `choose`, as the run itself reports it: (1/3 + 1) / 2."""
    line = json.loads((copied / "evaluations" / "step_000000.jsonl").read_text().splitlines()[0])
    right = [("one", 1), ("one", 0), ("one", 0), ("two", 1), ("choose", 0), ("choose", 0)]
    lines = [line | {"task": f"q{n}", "set": of, "rewards": {"exact_match": one}} for n, (of, one) in enumerate(right)]
    estimate = {"mean": 2 / 3, "low": 0.0, "high": 1.0, "method": "wilson", "n": 4}
    Run.open(copied).write_evaluation("step_000000", {"metrics": {"exact_match": estimate}}, 0, lines)
    config = copied / "config.yaml"
    config.write_text(config.read_text() + "evaluation: {choose_on: choose}\n")
    page = open_page("#/runs/small/evaluations?score=exact_match", at=show(copied.parent))
    first = page.locator(".matrix thead th").nth(2)
    expect(first).to_contain_text("0.667")
    for chosen, mean in (("one", "0.333"), ("choose", "0.000"), ("", "0.667")):
        page.get_by_role("combobox", name="Set").select_option(chosen)
        expect(first).to_contain_text(mean)


def test_a_score_and_a_filter_stay_in_the_address_and_arrows_lead_on(open_page: Open, recorded: Path) -> None:
    page = open_page("#/runs/ppo/evaluations?score=format")
    found = episodes(recorded / "ppo")
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
        ([[0.49, 0.5], [0.5, 0.49], [None, None]], ["learnt", "forgotten", None]),
        ([[0.0, 1.0], [None, 0.2, None, 0.7, None]], ["learnt", "learnt"]),
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
