"""The page of a run, and of several: its numbers equal the files, and its controls stay in the address."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

Open = Callable[..., Any]
ENDS = re.compile(r"eval/.*_(low|high)$")


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def unfold(page: Any) -> None:
    """All of a run's page, once it is drawn."""
    page.wait_for_selector(".chart canvas")
    page.locator("h1").click()
    page.keyboard.press("o")


def test_charts_evaluations_and_settings_equal_the_files(open_page: Open, recorded: Path) -> None:
    page, run = open_page("#/runs/ppo"), recorded / "ppo"
    unfold(page)
    charts = {chart.get_attribute("data-metric"): chart for chart in page.locator(".chart").all()}
    last = {key: (line["step"], value) for line in metrics(run) for key, value in line.items() if key != "step"}
    assert set(charts) == {key for key in last if not ENDS.match(key)}
    for key, chart in charts.items():
        chart.scroll_into_view_if_needed()
        chart.locator("canvas").wait_for()
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
