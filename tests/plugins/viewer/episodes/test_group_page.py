"""The page of a group: its samples side by side, and the place where their texts part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Open = Callable[..., Any]
Arrive = Callable[[Any, str], None]


def columns(page: Any) -> Any:
    return page.locator(".sample-column")


def column(page: Any, row: int) -> Any:
    return page.locator(f".sample-column[data-row='{row}']")


def test_the_texts_part_where_the_actions_do(open_planted: Open) -> None:
    page = open_planted("steps/2/groups/0")
    assert "they part in the action of turn 1" in page.locator("section.panel").inner_text()
    for sample, rest in enumerate(("\U0001f600", "\U0001f601 and dig", "\U0001f602")):
        cells = column(page, sample).locator(".cell")
        assert cells.nth(0).locator(".did .shared").inner_text() == "look at the map"
        assert cells.nth(1).locator(".did .shared").text_content() == "sail to "
        assert cells.nth(1).locator(".did .rest").inner_text() == rest
        assert cells.nth(2).locator(".did .shared").count() == 0, "after they part, nothing is shared"
        assert column(page, sample).locator(".parts").count() == 1
    greedy = page.locator(".sample-column.baseline")
    assert greedy.locator(".did").all_inner_texts() == ["look at the map", "sail to the stars", "It is on Tortuga."]
    assert greedy.locator(".shared, .parts").count() == 0


def test_they_part_where_a_word_a_tag_or_a_turn_begins(open_planted: Open) -> None:
    page = open_planted("steps/2/groups/0")
    asked = {
        ("I know: <answer>A", "I know: <search>B"): "I know: ",
        ("I know</think>", "I know<answer>"): "I know",
        ("it is at", "it is attic"): "it is ",
        ("it is at", "it is at home"): "it is at",
        ("Tortuga", "Tortoise"): "",
        ("3 < 4", "3 < 5"): "3 < ",
        ("lighthouse", "lighthouse"): None,
    }
    parted = page.evaluate(
        """async (asked) => {
          const { parting } = await import("viewer/lib/parting.js");
          const sample = (text) => [{ kind: "action", turn: 0, text, cut: null }];
          const shared = (texts, at) => at && texts[0].slice(0, at.offset);
          return asked.map((texts) => shared(texts, parting(texts.map(sample))));
        }""",
        [list(texts) for texts in asked],
    )
    assert parted == list(asked.values())


def test_a_column_tells_return_status_answer_and_rewards(open_planted: Open) -> None:
    page = open_planted("steps/2/groups/0")
    head = column(page, 1).locator("header").inner_text()
    for part in ("sample 1", "0.25", "truncated", "none", "outcome 0 (exact_match 0), process +0.25", "no ink left"):
        assert part in head
    assert column(page, 1).locator(".cell .mark").all_inner_texts() == [
        "process reward +0.5",
        "process reward −0.25",
    ]
    assert page.locator(".sample-column.baseline").locator("header h2").inner_text().startswith("greedy baseline")
