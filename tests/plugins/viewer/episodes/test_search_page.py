"""The search: it finds what is there and nothing else, and says how far it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

Open = Callable[..., Any]
Arrive = Callable[[Any, str], None]


def hits(page: Any) -> list[str]:
    expect(page.locator(".search-state [role=status]")).to_have_text(re.compile("^searched"), timeout=30_000)
    return page.locator(".hits a").all_text_contents()  # a browser may not have drawn them yet


def test_a_text_of_one_episode_is_found_in_it_alone(open_planted: Open, arrive: Arrive) -> None:
    page = open_planted("search")
    page.get_by_label("Text", exact=True).fill("AND DIG")
    page.keyboard.press("Enter")
    assert hits(page) == ["step 2, episode 1"]
    assert page.locator(".hits mark").inner_text() == "and dig", "as it is written there"
    assert page.locator(".hits .snippet").inner_text() == "…sail to \U0001f601 and dig…"
    assert page.locator(".search-state [role=status]").inner_text() == "searched 3 of 3 steps, 1 hit"
    assert page.evaluate("location.hash") == "#/runs/planted/search?text=AND+DIG"
    page.get_by_role("link", name="step 2, episode 1").click()
    arrive(page, "episode 1 of step 2")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("status=failed", ["step 2, episode 6"]),
        ("status=truncated&text=sail", ["step 2, episode 1"]),
        ("tool_error=yes&text=sail", ["step 2, episode 1"]),
        ("low=0.2&high=0.3&text=sail", ["step 2, episode 1"]),
        (
            "text=Hispaniola&turns_low=3&tool_error=no&low=1.75&status=terminated",
            [f"step 2, episode {one}" for one in (0, 3, 4, 5)],
        ),
        ("text=Hispaniola&turns_low=4", []),
        ("text=no such words", []),
    ],
)
def test_an_address_holds_a_search(open_planted: Open, query: str, found: list[str]) -> None:
    assert hits(open_planted(f"search?{query}")) == found


def test_half_a_file_is_said_and_the_search_goes_on(open_planted: Open) -> None:
    page = open_planted("search?text=sail")
    assert len(hits(page)) == 7
    assert "step_000001.parquet is not a whole file" in page.locator(".page p.problem").inner_text()
