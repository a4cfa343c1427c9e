"""What stands where a page cannot be shown: why, the crumbs to what exists, and links that lead on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Open = Callable[..., Any]
Arrive = Callable[[Any, str], None]


@pytest.mark.parametrize(
    ("place", "crumbs", "sentence", "ways"),
    [
        ("steps/9", ["planted", "step 9"], "no episodes of step 9", ["steps/3", "evaluations", ""]),
        ("steps/1", ["planted", "step 1"], "not a whole file", ["steps/2", "evaluations", ""]),
        ("steps/1/episodes/0", ["planted", "episode 0"], "not a whole file", ["steps/2", "evaluations", ""]),
        (
            "steps/2/groups/7",
            ["planted", "step 2", "group 7"],
            "no group 7",
            ["steps/2", "steps/1", "steps/3", "evaluations", ""],
        ),
        ("evaluations/none/episodes/0", ["planted", "episode 0"], "no evaluation 'none'", ["evaluations", ""]),
        ("nothing/here", ["planted", "here"], "no such page", ["evaluations", ""]),
    ],
)
def test_crumbs_and_links_lead_to_what_exists(
    open_planted: Open, watched: Any, place: str, crumbs: list[str], sentence: str, ways: list[str]
) -> None:
    watched.expected.append("status of 4")
    page = open_planted(place)
    assert sentence in page.get_by_role("alert").inner_text()
    assert page.locator("#top li").all_inner_texts() == ["runs", *crumbs]
    links = page.get_by_role("navigation", name="Ways on").get_by_role("link")
    found = [link.get_attribute("href") for link in links.all()]
    assert found == [f"#/runs/planted/{way}".rstrip("/") for way in ways] + ["#/"]
