"""The page of an episode: why it ended so, its turns and segments, and the keys that lead on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

Open = Callable[..., Any]
Arrive = Callable[[Any, str], None]

GREEDY = "steps/2/episodes/5"


def test_segments_and_what_went_wrong_are_told(open_planted: Open) -> None:
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


def test_a_failed_episode_begins_with_why(open_planted: Open) -> None:
    page = open_planted("steps/2/episodes/6")
    first = page.locator(".episode-head").inner_text().split("\n")[0]
    assert first == "The episode failed and was dropped; nothing was trained on it: the tool 'sextant' was lost at sea"
    page.keyboard.press("t")
    assert page.locator(".legend button[data-key=advantage]").is_disabled()


def test_keys_lead_to_neighbours_and_keep_the_view(open_planted: Open, arrive: Arrive) -> None:
    page = open_planted("steps/2/episodes/0")
    page.keyboard.press("t")
    page.keyboard.press("c")
    page.keyboard.press("c")
    kept = "?view=tokens&colour=advantage"
    assert page.evaluate("location.hash") == f"#/runs/planted/steps/2/episodes/0{kept}"
    for key, place in (
        ("j", "steps/2/episodes/1"),
        ("l", "steps/2/episodes/2"),
        ("l", GREEDY),
        ("n", "steps/3/episodes/5"),
    ):
        page.keyboard.press(key)
        _, step, _, row = place.split("/")
        arrive(page, f"episode {row} of step {step},")
        assert page.evaluate("location.hash") == f"#/runs/planted/{place}{kept}"
    page.keyboard.press("g")
    page.wait_for_selector(".sample-column")
    assert page.evaluate("location.hash").startswith("#/runs/planted/steps/3/groups/1")
