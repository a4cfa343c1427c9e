"""All pages in light and dark, and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Open = Callable[..., Any]
PAGES = {
    "#/": "tbody tr.link",
    "#/runs/grpo": ".chart canvas",
    "#/compare?runs=grpo,ppo": ".chart canvas",
    "#/runs/grpo/evaluations": ".matrix td a",
    "#/runs/grpo/steps/1": "tbody tr.link",
    "#/runs/grpo/steps/1/groups/0": ".sample-column",
    "#/runs/grpo/steps/1/episodes/0": ".turn",
    "#/runs/grpo/steps/1/episodes/0?view=tokens": ".tokens .token",
    "#/runs/grpo/search?text=a": ".hits a",
}
"""Addresses, and what stands there once their data is drawn."""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_scrolls_sideways(open_page: Open, width: int) -> None:
    page = open_page(width=width)
    for address, drawn in PAGES.items():
        page.evaluate("(address) => { location.hash = address; }", address)
        page.wait_for_selector(drawn)
        assert page.evaluate(SIDEWAYS) <= 0, address


def test_the_theme_follows_the_system_until_it_is_switched_and_the_choice_is_remembered(open_page: Open) -> None:
    page = open_page("#/runs/grpo", color_scheme="dark")
    page.wait_for_selector(".chart canvas")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(background)
    page.locator("h1").click()
    page.keyboard.press("d")
    light = page.evaluate(background)
    assert (dark, light) == ("rgb(20, 23, 26)", "rgb(244, 245, 247)")
    page.reload()
    page.wait_for_selector(".chart canvas")
    assert page.evaluate(background) == light
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(background) == dark
