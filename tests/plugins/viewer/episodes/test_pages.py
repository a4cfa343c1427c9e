"""The pages of steps, groups and episodes and the search: they show the file, and lead on by links and keys."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from asking import arrive
from playwright.sync_api import expect

Open = Callable[..., Any]


def cells(page: Any) -> list[list[str]]:
    rows = page.get_by_role("table", name="Groups").locator("tbody tr.link")
    return [[" ".join(text.split()) for text in row.locator("td").all_inner_texts()] for row in rows.all()]


def test_groups_equal_the_file(open_page: Open, recorded: Path) -> None:
    rows = pq.read_table(recorded / "grpo/trajectories/step_000001.parquet").to_pylist()
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["task_id"], []).append(row)
    page = open_page("#/runs/grpo/steps/1")
    for line, group in zip(cells(page), groups.values(), strict=True):
        returns = [row["return"] for row in group]
        assert [float(text) for text in line[1].split()] == pytest.approx(returns, rel=5e-2)
        assert float(line[2]) == pytest.approx(statistics.fmean(returns), rel=5e-3)
        assert float(line[3]) == pytest.approx(statistics.stdev(returns), rel=5e-3)
        assert float(line[5]) == pytest.approx(statistics.fmean(len(row["ids"]) for row in group), rel=5e-4)


def test_dropped_episodes_are_apart_and_begin_with_why(open_planted: Open) -> None:
    page = open_planted("steps/2")
    dropped = page.get_by_role("table", name="Dropped episodes").locator("tbody tr.link")
    assert "the tool 'sextant' was lost at sea" in dropped.inner_text()
    assert all("wreck" not in line[0] for line in cells(page))
    dropped.get_by_role("link").click()
    arrive(page, "episode 6 of step 2")
    first = page.locator(".episode-head").inner_text().split("\n")[0]
    assert first == "The episode failed and was dropped; nothing was trained on it: the tool 'sextant' was lost at sea"
    page.keyboard.press("t")
    assert page.locator(".legend button[data-key=advantage]").is_disabled()


def test_advantages_of_a_replay_stand_beside_those_of_the_record(open_planted: Open) -> None:
    """On one scale: the recorded ones reach from -1.5 to 0, the derived ones from 1 down."""
    page = open_planted("steps/2/episodes/0?view=tokens")
    sides = page.locator(".pair .tokens")
    assert sides.count() == 1
    page.locator(".legend button[data-key=replayed]").click()
    expect(sides).to_have_count(2)
    assert [sides.nth(number).get_attribute("data-colour") for number in (0, 1)] == ["advantage", "replayed"]
    below = [
        side.locator(".token.sampled").first.evaluate("it => it.classList.contains('below')") for side in sides.all()
    ]
    assert below == [True, False]
    sides.nth(1).locator(".token.sampled").first.hover()
    assert page.locator("dd[data-name='by algorithm=rloo']").inner_text() == "0.25"
    assert page.locator("dd[data-name=advantage]").inner_text() == "-0.75"
    page.locator(".legend button[data-key=advantage]").click()
    expect(sides.nth(1)).to_be_hidden()


def test_samples_of_a_group_are_side_by_side_and_part_where_the_actions_do(open_planted: Open) -> None:
    page = open_planted("steps/2/groups/0")
    assert "they part in the action of turn 1" in page.locator("section.panel").inner_text()
    for sample, rest in enumerate(("\U0001f600", "\U0001f601 and dig", "\U0001f602")):
        column = page.locator(f".sample-column[data-row='{sample}']")
        cells = column.locator(".cell")
        assert cells.nth(0).locator(".did .shared").inner_text() == "look at the map"
        assert cells.nth(1).locator(".did .shared").text_content() == "sail to "
        assert cells.nth(1).locator(".did .rest").inner_text() == rest
        assert cells.nth(2).locator(".did .shared").count() == 0, "after they part, nothing is shared"
    greedy = page.locator(".sample-column.baseline")
    assert greedy.locator("header h2").inner_text().startswith("greedy baseline")
    assert greedy.locator(".did").all_inner_texts() == ["look at the map", "sail to the stars", "It is on Tortuga."]
    assert greedy.locator(".shared, .parts").count() == 0
    stumbled = page.locator(".sample-column[data-row='1']")
    head = stumbled.locator("header").inner_text()
    for part in ("sample 1", "0.25", "truncated", "none", "outcome 0 (exact_match 0), process +0.25", "no ink left"):
        assert part in head
    assert stumbled.locator(".cell .mark").all_inner_texts() == ["process reward +0.5", "process reward −0.25"]


def test_an_episode_begins_with_what_went_wrong_and_shows_its_segments(open_planted: Open) -> None:
    page = open_planted("steps/2/episodes/1")
    assert page.locator(".verdict li").all_inner_texts() == [
        "It ran out of turns before it came to an end.",
        "The policy had read the gold answer before turn 1.",
        "2 actions could not be read, for 2 different reasons, first in turn 0: “this is no tool call”; then in turn 2",
        "1 tool call ended in an error, in turn 1: “no ink left”",
        "1 action was cut by a token budget, in turn 2.",
    ]
    page.locator(".verdict li").nth(3).get_by_role("button", name="turn 1").click()
    expect(page.locator(".turn[data-turn='1'] h3")).to_be_in_viewport()
    call = page.locator(".calls li.error").inner_text().split("\n")
    assert call == ["map", "0.25 s", "scale", "3", "place", "Tortuga", "✕ error:", "no ink left"]
    assert "segment 1" in page.locator(".conversation .break").inner_text()
    assert page.locator(".turn.closing").inner_text().endswith("The end of the map.")
    page.keyboard.press("t")
    assert page.locator(".segment > header h2").all_inner_texts() == ["Segment 0 (0 to 1)", "Segment 1 (0 to 1)"]
    assert "The context was rewritten" in page.locator(".segment > header.break").inner_text()


def test_keys_lead_to_neighbours_and_keep_the_view(open_planted: Open) -> None:
    page = open_planted("steps/2/episodes/0")
    for key in "tcc":
        page.keyboard.press(key)
    kept = "?view=tokens&colour=advantage"
    assert page.evaluate("location.hash") == f"#/runs/planted/steps/2/episodes/0{kept}"
    for key, step, row in (("j", 2, 1), ("l", 2, 2), ("l", 2, 5), ("n", 3, 5)):
        page.keyboard.press(key)
        arrive(page, f"episode {row} of step {step},")
        assert page.evaluate("location.hash") == f"#/runs/planted/steps/{step}/episodes/{row}{kept}"
    page.keyboard.press("g")
    page.wait_for_selector(".sample-column")
    assert page.evaluate("location.hash").startswith("#/runs/planted/steps/3/groups/1")


def hits(page: Any) -> list[str]:
    expect(page.locator(".search-state [role=status]")).to_have_text(re.compile("^searched"), timeout=30_000)
    return page.locator(".hits a").all_text_contents()  # a browser may not have drawn them yet


def test_a_text_of_one_episode_is_found_in_it_alone_and_an_address_holds_what_a_search_asks_for(
    open_planted: Open,
) -> None:
    page = open_planted("search")
    page.get_by_label("Text", exact=True).fill("AND DIG")
    page.keyboard.press("Enter")
    assert hits(page) == ["step 2, episode 1"]
    assert page.locator(".hits mark").inner_text() == "and dig", "as it is written there"
    assert page.locator(".hits .snippet").inner_text() == "…sail to \U0001f601 and dig…"
    assert page.locator(".search-state [role=status]").inner_text() == "searched 3 of 3 steps, 1 hit"
    assert "step_000001.parquet is not a whole file" in page.locator(".page p.problem").inner_text()
    assert page.evaluate("location.hash") == "#/runs/planted/search?text=AND+DIG"
    page.get_by_role("link", name="step 2, episode 1").click()
    arrive(page, "episode 1 of step 2")
    page = open_planted("search?status=truncated&tool_error=yes&high=0.5&turns_low=3")
    assert hits(page) == ["step 2, episode 1"]
    assert page.get_by_label("ended").input_value() == "truncated"
    assert page.get_by_label("tool errors").input_value() == "yes"
    assert page.get_by_label("return, at most").input_value() == "0.5"
    assert page.get_by_label("turns, at least").input_value() == "3"


@pytest.mark.parametrize(
    ("place", "crumbs", "sentence", "ways"),
    [
        ("steps/1/episodes/0", ["planted", "episode 0"], "not a whole file", ["steps/2", "evaluations", ""]),
        ("evaluations/none/episodes/0", ["planted", "episode 0"], "no evaluation 'none'", ["evaluations", ""]),
        ("nothing/here", ["planted", "here"], "no such page", ["evaluations", ""]),
    ],
)
def test_where_there_is_nothing_crumbs_and_links_lead_to_what_is_near(
    open_planted: Open, watched: Any, place: str, crumbs: list[str], sentence: str, ways: list[str]
) -> None:
    watched.expected.append("status of 4")
    page = open_planted(place)
    assert sentence in page.get_by_role("alert").inner_text()
    assert page.locator("#top li").all_inner_texts() == ["runs", *crumbs]
    links = page.get_by_role("navigation", name="Ways on").get_by_role("link")
    found = [link.get_attribute("href") for link in links.all()]
    assert found == [f"#/runs/planted/{way}".rstrip("/") for way in ways] + ["#/"]
