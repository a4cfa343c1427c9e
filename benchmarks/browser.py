"""How long an installed browser takes until a page shows what it is for.

Each page has a context of its own, so that the browser has kept nothing of an earlier one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def first_views() -> Iterator[Callable[[str, str], float] | str]:
    """`view(address, selector)`: milliseconds from the address until the selector is visible; or why there is none."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        yield f"none of {', '.join(BROWSERS)} is installed"
        return
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield "playwright is not installed"
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])

        def view(address: str, selector: str) -> float:
            with browser.new_context() as context:
                page = context.new_page()
                begun = time.perf_counter()
                page.goto(address)
                page.wait_for_selector(selector)
                return 1000 * (time.perf_counter() - begun)

        yield view
        browser.close()
