"""Takes the pictures of the viewer in the docs: the page of a run, and an episode token by token.

    python scripts/smollm2.py search
    python scripts/viewer_screenshots.py runs/smollm2-search-1 --out docs

Serves the run as `agent-r1 view` does, and opens both pages in a headless Chromium. The episode is the first that
earned less than another one of its group; the token that the policy was least sure of is chosen, so that the picture
shows what is known of a token.
"""

from __future__ import annotations

import argparse
import shutil
import threading
from pathlib import Path
from typing import Any

from agent_r1_viewer.serving import HOST, Viewer, listen

from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.runs.run import Run

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH = 1280
SHARPNESS = 1.25
"""Pixels of a picture for one of the page."""


def telling_episode(run: Run) -> tuple[int, int, int]:
    """Step and row of the first episode that earned less than another one of its group, and its least sure token."""
    for step in run.trajectory_steps():
        trajectories = run.read_trajectories(step)
        returns: dict[str, set[float]] = {}
        for one in trajectories:
            returns.setdefault(one.task.id, set()).add(one.total_reward)
        for row, one in enumerate(trajectories):
            if one.total_reward < max(returns[one.task.id]):
                logprobs = [value for segment in one.segments for value in segment.logprobs]
                return step, row, logprobs.index(min(logprobs))
    raise SystemExit("no group of this run has a spread of returns; train another one, for example with another seed")


def show(page: Any, address: str, drawn: str, height: int) -> None:
    """Open an address and wait until `drawn` is there."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto(address)
    page.wait_for_selector(drawn)


def save(page: Any, out: Path) -> None:
    """Save what is in sight, once it is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.screenshot(path=out)
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB")


def take(page: Any, start: str, run: Run, out: Path) -> None:
    """Take both pictures of the run that is shown at `start`."""
    show(page, f"{start}?smooth=0.6", ".chart canvas", height=800)
    # When the run was made and where it and its model lie tells a reader nothing.
    for fact in ("begun", "changed", "folder", "model"):
        page.locator("dl.facts > div").filter(has_text=fact).evaluate("(fact) => fact.remove()")
    save(page, out / "viewer_run.png")
    step, row, token = telling_episode(run)
    show(page, f"{start}/steps/{step}/episodes/{row}?view=tokens&colour=logprob", ".tokens-view", height=880)
    for _ in range(token + 1):
        page.keyboard.press("ArrowRight")
    save(page, out / "viewer_episode.png")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of the run")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    arguments = parser.parse_args()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise SystemExit(f"there is no browser; install one of {', '.join(BROWSERS)}")
    run = Run.open(arguments.run)

    from playwright.sync_api import sync_playwright

    opened, ready, token = listen(None), threading.Event(), "pictures"
    viewer = Viewer(FoundRuns([str(run.path)]), token, ready.set)
    thread = threading.Thread(target=viewer.run, kwargs={"sockets": [opened]})
    thread.start()
    ready.wait()
    start = f"http://{HOST}:{opened.getsockname()[1]}/?token={token}#/runs/{run.name}"
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            take(browser.new_page(device_scale_factor=SHARPNESS), start, run, arguments.out)
            browser.close()
    finally:
        viewer.should_exit = True
        thread.join()
        opened.close()


if __name__ == "__main__":
    main()
