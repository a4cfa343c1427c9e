"""What `plot` and `show` give a notebook, in a bare page: it draws, moves about, and asks nobody else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from agent_r1_viewer import plot, show

from agent_r1_core.runs.run import Run


def in_frame(shown: Any, file: Path, browser: Any, watched: Any, look: Callable[[Any], None]) -> None:
    """Look at the frame of what a notebook shows, in a page with nothing else."""
    file.write_text(f'<!doctype html><meta charset="utf-8">{shown._repr_html_()}', encoding="utf-8")
    watched.expected.append(file.as_uri())
    with closing(browser.new_page()) as page:
        watched.watch(page)
        page.goto(file.as_uri())
        page.frames[1].wait_for_selector("#page > .page")
        look(page.frames[1])
    assert watched.unexpected() == []


def test_curves_and_an_episode_are_drawn_in_a_cell(browser: Any, watched: Any, recorded: Path, tmp_path: Path) -> None:
    run, other = Run.open(recorded / "grpo"), Run.open(recorded / "ppo")

    def look_at_curves(frame: Any) -> None:
        frame.wait_for_selector(".chart canvas")
        assert frame.locator(".chart h3").all_text_contents() == ["reward/mean", "eval/exact_match"]
        readout = frame.locator('.chart[data-metric="reward/mean"] .readout').text_content()
        for one in (run, other):
            assert f"{one.name} {one.metrics()[-1]['reward/mean']:.4g}".rstrip("0") in readout

    def look_at_an_episode(frame: Any) -> None:
        frame.get_by_text(str(next(iter(run.read_trajectories(3))).task.prompt)).first.wait_for()
        frame.locator('[data-view="tokens"]').click()
        frame.wait_for_selector(".tokens-view")
        frame.locator("a", has_text="step 3").first.click()
        frame.get_by_text("4 groups").first.wait_for()
        frame.get_by_role("link", name="grpo").click()
        assert "does not hold" in frame.get_by_role("alert").inner_text()

    curves = plot(run, "reward/mean", "eval/exact_match", others=[other])
    in_frame(curves, tmp_path / "curves.html", browser, watched, look_at_curves)
    in_frame(show(run, step=3), tmp_path / "episode.html", browser, watched, look_at_an_episode)
