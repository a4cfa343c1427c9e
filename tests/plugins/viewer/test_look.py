"""All pages in light and dark, on a phone, by the keyboard, and without a jump while their data comes in."""

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
}
"""Addresses, and what stands there once their data is drawn."""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_scrolls_sideways_or_jumps_while_data_comes_in(
    open_page: Open, jumps: Callable[[Any], float], width: int
) -> None:
    page = open_page(width=width)
    for address, drawn in PAGES.items():
        page.evaluate("(address) => { location.hash = address; }", address)
        page.wait_for_selector(drawn)
        # Two frames later everything that was asked for is laid out.
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate(SIDEWAYS) <= 0, address
        assert jumps(page) < 0.02, address


def test_the_theme_follows_the_system_until_it_is_switched_and_the_choice_is_remembered(open_page: Open) -> None:
    page = open_page("#/runs/grpo", color_scheme="dark")
    page.wait_for_selector(".chart canvas")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    brightest = """() => {
      const canvas = document.querySelector(".chart canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Set();
      for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) seen.add(data.slice(at, at + 3).join());
      return [...seen];
    }"""
    dark, drawn_dark = page.evaluate(background), page.evaluate(brightest)
    page.locator("h1").click()
    page.keyboard.press("d")
    light, drawn_light = page.evaluate(background), page.evaluate(brightest)
    assert (dark, light) == ("rgb(20, 23, 26)", "rgb(244, 245, 247)")
    assert "86,180,233" in drawn_dark
    assert "0,114,178" in drawn_light
    page.reload()
    page.wait_for_selector(".chart canvas")
    assert page.evaluate(background) == light
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(background) == dark
