"""What `plot` and `show` give a notebook, in a bare page: it draws, moves about, and asks nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_r1_viewer import plot, show

from agent_r1_core.runs.run import Run


@pytest.fixture
def framed(browser: Any, watched: Any, tmp_path: Path) -> Any:
    """`framed(shown)`: the frame of what a notebook shows, in a page with nothing else."""
    opened = []

    def frame(shown: Any) -> Any:
        file = tmp_path / f"cell_{len(opened)}.html"
        file.write_text(f'<!doctype html><meta charset="utf-8">{shown._repr_html_()}', encoding="utf-8")
        watched.expected.append(file.as_uri())
        page = browser.new_page()
        opened.append(page)
        watched.watch(page)
        page.goto(file.as_uri())
        inside = page.frames[1]
        inside.wait_for_selector("#page > .page")
        return inside

    yield frame
    for page in opened:
        page.close()
    assert watched.unexpected() == []


def test_curves_of_several_runs(framed: Any, recorded: Path) -> None:
    run, other = Run.open(recorded / "grpo"), Run.open(recorded / "ppo")
    frame = framed(plot(run, "reward/mean", "eval/exact_match", others=[other]))
    frame.wait_for_selector(".chart canvas")
    assert frame.locator(".chart h3").all_text_contents() == ["reward/mean", "eval/exact_match"]
    readout = frame.locator('.chart[data-metric="reward/mean"] .readout').text_content()
    for one in (run, other):
        assert f"{one.name} {one.metrics()[-1]['reward/mean']:.4g}".rstrip("0") in readout


def test_an_episode_and_the_way_from_it(framed: Any, recorded: Path) -> None:
    run = Run.open(recorded / "grpo")
    (first, *_) = run.read_trajectories(3)
    frame = framed(show(run, step=3))
    frame.get_by_text(str(first.task.prompt)).first.wait_for()
    frame.locator('[data-view="tokens"]').click()
    frame.wait_for_selector(".tokens-view")
    frame.locator("a", has_text="step 3").first.click()
    frame.get_by_text("4 groups").first.wait_for()
    assert frame.evaluate("location.hash") == "#/runs/grpo/steps/3"
    frame.get_by_role("link", name="grpo").click()
    assert "does not hold" in frame.get_by_role("alert").inner_text()
    frame.get_by_role("button", name="Back").click()
    frame.get_by_text("4 groups").first.wait_for()
