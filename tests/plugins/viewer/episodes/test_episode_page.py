"""The page of an episode: why it ended so, its turns and segments, and the keys that lead on."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import EndStatus, Trajectory

Open = Callable[..., Any]
Arrive = Callable[[Any, str], None]

GREEDY = "steps/2/episodes/5"


def test_a_reward_of_zero_is_shown_as_zero(open_planted: Open) -> None:
    page = open_planted("steps/2/episodes/0")
    assert page.locator(".turn[data-turn='1'] header .mark").all_inner_texts() == ["process reward 0"]


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


def test_an_answer_stands_beside_the_gold_answers(open_planted: Open) -> None:
    right, wrong = open_planted("steps/2/episodes/0"), open_planted("steps/2/episodes/2")
    for page, answer in ((right, "✓ Tortuga"), (wrong, "✕ nowhere")):
        text = " ".join(page.locator(".answers").inner_text().split()).replace(" ,", ",")
        assert text == f"answer {answer} gold answers Tortuga, La Tortuga"


def test_a_failed_episode_begins_with_why(open_planted: Open) -> None:
    page = open_planted("steps/2/episodes/6")
    first = page.locator(".episode-head").inner_text().split("\n")[0]
    assert first == "The episode failed and was dropped; nothing was trained on it: the tool 'sextant' was lost at sea"
    page.keyboard.press("t")
    assert page.locator(".legend button[data-key=advantage]").is_disabled()


def test_a_cut_episode_says_why_or_that_nobody_knows(open_planted: Open) -> None:
    said = open_planted("steps/2/episodes/1").evaluate(
        """async () => {
          const { verdictList } = await import("viewer/lib/verdict.js");
          const episode = { status: "truncated", turns: [], answer: "1", rewards: {}, task: { answers: [] } };
          return ["", "the tide"].map((reason) => verdictList({ ...episode, reason }).textContent);
        }"""
    )
    assert said == ["It was cut: no reason was recorded.", "It was cut: the tide."]


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


def test_a_page_that_was_left_before_it_loaded_leaves_the_address_alone(open_planted: Open, arrive: Arrive) -> None:
    page = open_planted("steps/2")
    held: list[Any] = []
    page.route("**/episodes/0", lambda route: held.append(route))
    with page.expect_request("**/episodes/0"):
        page.evaluate("location.hash = '#/runs/planted/steps/2/episodes/0?view=tokens'")
    page.evaluate("location.hash = '#/runs/planted/steps/3'")
    arrive(page, "step 3")
    with page.expect_request("**/steps/2"):  # which the page of the episode asks for once it is built
        held[0].continue_()
    assert page.evaluate("location.hash") == "#/runs/planted/steps/3"


def test_numbers_are_those_of_files_and_of_python(open_planted: Open, planted: Path) -> None:
    page = open_planted("steps/2/episodes/2")
    nav = page.get_by_role("navigation", name="Other episodes")
    expect(nav.locator(".chip")).to_have_text([re.compile(one) for one in ("^0 ", "^1 ", "^3 ", "^greedy$")])
    assert "episode 2 (0 to 6)" in nav.inner_text()
    assert page.locator(".turn h3").all_inner_texts()[:3] == ["turn 0", "turn 1", "turn 2"]
    run = Run.open(planted)
    one = run.read_trajectories(2)[2]
    assert (one.sample, [turn.index for turn in one.turns]) == (3, [0, 1, 2])
    shown = run.show(step=2, group=0, sample=3)
    assert shown.address == "#/runs/planted/steps/2/episodes/2"
    assert repr(shown).startswith("planted, step 2, group 0 (0 to 1), sample 3 (0 to 1, 3)")


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


def test_a_turn_leads_to_its_tokens_and_back(open_planted: Open) -> None:
    page = open_planted("steps/2/episodes/1")
    page.locator(".turn[data-turn='2']").get_by_role("button", name="tokens").click()
    label = page.locator(".run[data-turn='2']").get_by_role("button")
    assert label.inner_text() == "turn 2 · action · 2 tokens"
    label.click()
    assert page.locator(".turn[data-turn='2']").is_visible()


@pytest.mark.parametrize("view", ["", "?view=tokens"])
def test_a_phone_does_not_scroll_sideways(open_planted: Open, view: str) -> None:
    page = open_planted(f"steps/2/episodes/1{view}", width=390)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
