"""Real runs, recorded once; the viewer that serves them; a browser that minds every error and every address."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from asking import shown
from recorded_run import record

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 120_000
"""Milliseconds that a page has for what a test waits for."""
SMALL = [
    *("model.dtype=float32", "model.device=cpu", "training.steps=3", "training.tasks_per_step=4", "threads=1"),
    *("training.samples_per_task=4", "evaluation.size=12", "evaluation.every=1", "tasks.train.size=40", "trackers=[]"),
]
RECORDED = {
    "grpo": ("default", []),
    "ppo": ("ppo", ["rewards=[exact_match, {name: format, weight: 0}]"]),
    "summary": ("default", ["context={name: summary, max_tokens: 120}"]),
}
"""Runs of the bundled model by name: recipe and further keys; episodes of `summary` have several segments."""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs of `RECORDED`; workers of pytest-xdist share one, which must not be changed."""
    from agent_r1_core import train

    shared = tmp_path_factory.getbasetemp()
    folder = (shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / "recorded"
    folder.mkdir(exist_ok=True)
    with (folder / ".recording").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, (recipe, keys) in RECORDED.items():
            if not (folder / name / "model").is_dir():
                train(recipe, [*SMALL, *keys, f"run.dir={folder}", f"run.name={name}"], force=True)
    return folder


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run; nobody changes it."""
    folder = tmp_path_factory.mktemp("runs")
    record(folder)
    return folder


@pytest.fixture
def copied(home: Path, tmp_path: Path) -> Path:
    """The run, to be damaged."""
    return Path(shutil.copytree(home / "small", tmp_path / "runs" / "small"))


@pytest.fixture
def show() -> Iterator[Callable[[Path], str]]:
    """`show(folder)` serves a folder of the test's own until the test ends, and returns the address."""
    with ExitStack() as stack:
        yield lambda folder: stack.enter_context(shown(folder))


@pytest.fixture(scope="session")
def viewer(recorded: Path) -> Iterator[str]:
    """The address at which the recorded runs are shown."""
    with shown(recorded) as address:
        yield address


@pytest.fixture(scope="module")
def browser(viewer: str) -> Iterator[Any]:
    """A headless Chromium. It ends with its module: Playwright runs an event loop that other tests must not meet."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        reason = f"there is no browser: none of {', '.join(BROWSERS)} is installed"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Watched:
    """What the pages of a test did that they must not do."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.expected: list[str] = []
        """Parts of faults that belong to a test: `watched.expected.append("404")` for a page that does not exist."""

    def unexpected(self) -> list[str]:
        """Faults that no test expects."""
        return [fault for fault in self.faults if not any(part in fault for part in self.expected)]

    def watch(self, page: Any) -> None:
        """Note errors in the console, errors of scripts, and requests that leave this machine."""
        page.on("console", lambda line: line.type == "error" and self.faults.append(f"console: {line.text}"))
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("request", lambda request: self._request(request.url))

    def _request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.hostname != "127.0.0.1":
            self.faults.append(f"a request left this machine: {url}")


@pytest.fixture
def watched() -> Watched:
    """Notes the faults of the test's pages."""
    return Watched()


@pytest.fixture
def open_page(browser: Any, viewer: str, show: object, watched: Watched) -> Iterator[Callable[..., Any]]:
    """`open_page("#/runs/grpo", width=390)` opens an address of the viewer; the test fails if the page does wrong.

    It asks for `show` so that pages close before their viewer ends.
    """
    contexts = []

    def open_at(address: str = "", width: int = 1280, at: str = viewer, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        watched.watch(page)
        page.goto(f"{at}{address}")
        page.wait_for_selector("#page > .page")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert watched.unexpected() == []
