"""The list of runs: what it says of each equals the files, and it sorts, filters and chooses."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

Open = Callable[..., Any]


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


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


def test_every_run_is_listed_with_what_its_files_say(page: Any, recorded: Path) -> None:
    assert sorted(rows(page)) == ["grpo", "ppo", "summary"]
    shown, lines = cells(page, "ppo"), metrics(recorded / "ppo")
    expected = {"state": "✓ finished", "algorithm": "ppo", "recipe": "ppo", "model": "tiny", "steps": "3 / 3"}
    assert shown.items() >= (expected | {"best score": best_exact_match(recorded / "ppo")}).items()
    assert float(shown["time"].removesuffix(" s")) == pytest.approx(sum(line["time/step"] for line in lines), rel=0.06)
    row = page.locator("tbody tr.link", has=page.get_by_role("link", name="ppo", exact=True))
    said = re.findall(r"[\d.]+", row.get_by_role("img").get_attribute("aria-label"))
    assert [float(one) for one in said] == pytest.approx([lines[at]["reward/mean"] for at in (0, -1)], rel=2e-3)


def test_it_sorts_filters_and_chooses_and_keeps_that_in_the_address(open_page: Open, recorded: Path) -> None:
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
