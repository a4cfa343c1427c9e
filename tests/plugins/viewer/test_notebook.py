"""What a notebook shows of runs: in a terminal curves with numbers and an episode as text, else a page in a frame."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agent_r1_viewer import plot, show
from recorded_run import episode, record

from agent_r1_core.errors import RunError
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import write_trajectories


@pytest.fixture
def small(home: Path) -> Run:
    """A run of three steps with episodes of every kind."""
    return Run.open(home / "small")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the same name elsewhere, with one metric of its own, and one that was not finite."""
    run = Run.create(tmp_path_factory.mktemp("others"), "small", {}, [])
    for step, reward in enumerate((0.5, math.nan, 2.0), start=1):
        run.append_metrics(step, {"reward/mean": reward, "own/metric": 1.0})
    run.close()
    return run


def test_curves_in_a_terminal_have_their_range_and_a_name_that_is_none_gets_those_that_are_near(
    small: Run, other: Run, tmp_path: Path
) -> None:
    rewards = [line["reward/mean"] for line in small.metrics()]
    (line,) = repr(plot(small)).splitlines()
    assert line.startswith("reward/mean  ")
    assert line.endswith(f"{min(rewards):.3g} to {max(rewards):.3g}, {rewards[-1]:.3g} in step 3")
    lines = repr(plot(other, "own/metric", "reward/mean", others=[small])).splitlines()
    first, second = (f"{run.path.parent.name}/small" for run in (other, small))
    expected = {
        f"own/metric  {first}": "▁▁▁  1, 1 in step 3",
        f"own/metric  {second}": "not recorded",
        f"reward/mean  {first}": "▁ █  0.5 to 2, 2 in step 3",
    }
    width = max(len(label) for label in (*expected, f"reward/mean  {second}"))
    assert lines[:3] == [f"{label:{width}}  {row}" for label, row in expected.items()]
    assert repr(plot(str(other.path), "own/metric", "reward/mean", others=[small.path])).splitlines() == lines
    with pytest.raises(RunError, match=r"^run small has no metric 'reward/meen'; near it are reward/mean"):
        plot(small, "reward/mean", "reward/meen")
    with pytest.raises(RunError, match=r"^run small has no metric 'OWN'; near it are own/metric$"):
        plot(other, "OWN")
    with Run.create(tmp_path, "empty", {}, []) as empty:
        with pytest.raises(RunError, match=r"^run empty has recorded no step yet"):
            plot(empty)
        with pytest.raises(RunError, match=r"^run empty has no episodes yet"):
            show(empty)
    with pytest.raises(RunError, match="no run"):
        plot(small, others=[tmp_path / "none"])


def test_an_episode_in_a_terminal_is_its_text_and_nothing_that_acts(small: Run) -> None:
    text = repr(show(small, step=2, group=1, sample=1))
    assert text.splitlines()[:8] == [
        "small, step 2, group 1 (0 to 1), sample 1 (0 to 2)",
        "return 1.25 (of the group: 0.583), terminated: answer",
        "answer: b2 1, of B2",
        "",
        "user: What is b2?",
        "[[I look it up]]  (reward 0.25)",
        "",
        r"tool: <script>document.title = 1</script> \x1b[31m \u202e",
    ]
    assert repr(show(small)).startswith("small, step 3, group 0")


def test_curves_of_evaluations_begin_before_the_first_step_and_have_one_for_each_set(
    small: Run, tmp_path: Path
) -> None:
    assert repr(plot(small, "eval/exact_match")).endswith("0 to 0.5, 0.5 in step 3")
    with Run.create(tmp_path, "sets", {}, []) as run:
        for step, mean in ((0, 0.25), (1, 0.5), (2, 0.75)):
            scores = {"exact_match": {"mean": mean, "low": None, "high": None, "method": "wilson", "n": 2}}
            whole = {"metrics": scores, "sets": {"easy": {"metrics": scores}}}
            run.write_evaluation(f"step_{step:06d}", whole, step)
            run.append_metrics(step + 1, {"reward/mean": 0.0})
        assert repr(plot(run, "eval/easy/exact_match")).endswith("0.25 to 0.75, 0.75 in step 2")


def test_a_sample_keeps_its_number_where_another_was_dropped(tmp_path: Path) -> None:
    run = Run.open(record(tmp_path, steps=1))
    kept = [one for one in run.read_trajectories(1) if one.id != "a1/1"]
    write_trajectories(run.trajectory_file(1), 1, kept)
    assert repr(show(run, step=1, sample=2)).startswith("small, step 1, group 0 (0 to 1), sample 2 (0, 2)")
    with pytest.raises(RunError, match=r"^group 0 of step 1 has no sample 1; it has 0, 2$"):
        show(run, step=1, sample=1)


def test_an_episode_of_an_evaluation_is_named_by_it_and_its_set(small: Run, tmp_path: Path) -> None:
    text = repr(show(small, evaluation="step_000003", sample=1))
    assert text.splitlines()[:3] == [
        "small, evaluation step_000003, sample 1 (0 to 1)",
        "return 0.25, terminated: answer",
        "answer: y 0, of Y",
    ]
    with Run.create(tmp_path, "sets", {}, []) as run:
        files = {name: f"step_000001.{name}.parquet" for name in ("easy", "hard & long")}
        for name, task in zip(files, "xy", strict=True):
            write_trajectories(run.path / "evaluations" / files[name], 1, [episode(task, 0, reward=1.0)])
        run.write_evaluation("step_000001", {"metrics": {}, "trajectories": files}, 1)
        shown = show(run, evaluation="step_000001", set_name="hard & long")
        assert shown.text.splitlines()[2] == "answer: y 0, of Y"
        assert shown.address == "#/runs/sets/evaluations/step_000001/episodes/0?set=hard+%26+long"
        with pytest.raises(RunError, match=r"keeps episodes: easy, hard & long$"):
            show(run, evaluation="step_000001")


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ({"step": 9}, "run small has no episodes of step 9; it has those of 1 to 3"),
        ({"step": 1, "group": 2}, "step 1 of run small has no group 2; it has 0 to 1"),
        ({"evaluation": "last"}, "run small has no evaluation 'last'; it has step_000000, step_000003"),
        (
            {"evaluation": "step_000003", "sample": 2},
            "evaluation step_000003 of run small has no sample 2; it has 0 to 1",
        ),
        ({"set_name": "hard"}, "show either an episode of a step and a group, or one of an evaluation and its set"),
    ],
)
def test_an_episode_that_is_not_there_is_one_sentence(small: Run, where: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RunError, match=f"^{re.escape(sentence)}$"):
        show(small, **where)


def test_a_notebook_gets_a_frame_that_may_only_draw(small: Run, other: Run) -> None:
    for shown, address in (
        (show(small, step=2, group=1, sample=0), "#/runs/small/steps/2/episodes/3"),
        (show(small, evaluation="step_000003"), "#/runs/small/evaluations/step_000003/episodes/0"),
        (plot(small, "reward/mean"), "#/plot?runs=small&metrics=reward%2Fmean"),
    ):
        frame = shown._repr_html_()
        match = re.fullmatch(r'<iframe sandbox="allow-scripts" style="[^"]+" srcdoc="([^"]+)"></iframe>', frame)
        assert match is not None
        page = html.unescape(match[1])
        assert page.startswith("<!doctype html>")
        assert f'location.hash = "{address}"' in page
    several = plot(small, "reward/mean", others=[other])
    ids = [f"{run.path.parent.name}/small" for run in (small, other)]
    assert (
        several.address == f"#/plot?runs={'%2C'.join(one.replace('/', '%252F') for one in ids)}&metrics=reward%2Fmean"
    )
    assert "carried" in several._repr_html_()


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
