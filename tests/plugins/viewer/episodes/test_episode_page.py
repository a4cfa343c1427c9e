"""The page of an episode: why it ended so, its turns and segments, and the keys that lead on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import EndStatus, Trajectory

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
        ("]", "steps/2/episodes/0"),
        ("h", GREEDY),
        ("k", "steps/2/episodes/4"),
        ("n", "steps/3/episodes/4"),
        ("p", "steps/2/episodes/4"),
    ):
        page.keyboard.press(key)
        _, step, _, row = place.split("/")
        arrive(page, f"episode {row} of step {step},")
        assert page.evaluate("location.hash") == f"#/runs/planted/{place}{kept}"
        shown = page.locator(".legend button[aria-pressed=true]").inner_text()
        assert shown == ("action mask" if place == GREEDY else "advantage"), "a baseline has no advantages"
    page.keyboard.press("g")
    page.wait_for_selector(".sample-column")
    assert page.evaluate("location.hash").startswith("#/runs/planted/steps/2/groups/1")


def test_an_episode_without_turns_and_a_run_without_a_tokenizer_are_shown(
    open_page: Open, planted: Path, tmp_path: Path, serve: Any
) -> None:
    run = tmp_path / "planted"
    shutil.copytree(planted, run)
    (run / "model_files/tokenizer.json").unlink()
    early = Trajectory(make_task(), 0, status=EndStatus.FAILED, reason="the engine is gone")
    write_trajectories(run / "trajectories/step_000003.parquet", 3, [make_trajectory(), early])
    with serve(run) as address:
        page = open_page("#/runs/planted/steps/3/episodes/0?view=tokens", at=address)
        assert page.locator(".tokens .token").all_inner_texts() == [f"{token} " for token in range(1, 10)]
        assert "tokens are shown as their ids" in page.locator(".tokens").inner_text()
        page = open_page("#/runs/planted/steps/3/episodes/1", at=address)
        assert "the engine is gone" in page.locator(".verdict").inner_text()
        assert page.locator(".conversation").inner_text() == "It ended before its first turn."
        page.keyboard.press("t")
        assert page.locator(".tokens").inner_text() == "It has no tokens."
