"""What a list of runs says about a run: read again as the run grows, and whatever of it is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_r1_core.runs.reading.metrics_tail import MetricsTail
from agent_r1_core.runs.reading.summary import POINTS, RunSummary, SummaryReader
from agent_r1_core.runs.run import Run

CONFIG = {
    "model": {"name": "tiny"},
    "algorithm": {"name": "grpo"},
    "training": {"steps": 200},
    "checkpoint": {"best": "eval/exact_match"},
}


def scores(value: float) -> dict[str, object]:
    """The result of an evaluation of 20 questions."""
    estimate = {"mean": value, "low": value - 0.1, "high": value + 0.1, "method": "wilson", "n": 20}
    return {"metrics": {"exact_match": estimate, "reward/mean": {**estimate, "mean": -value}}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, "first", CONFIG, [], recipe="search")


def test_a_summary_says_what_the_files_say(run: Run) -> None:
    run.append_metrics(1, {"reward/mean": 0.25, "time/step": 2.0})
    run.append_metrics(2, {"reward/mean": 0.5, "time/step": 3.0})
    for step, value in ((0, 0.3), (1, 0.7), (2, 0.7)):
        run.write_evaluation(f"step_{step:06d}", scores(value), step)
    run.write_evaluation("eval_1", scores(0.9))  # of other questions, perhaps
    summary = RunSummary.of(run)
    assert (summary.name, summary.recipe, summary.algorithm, summary.model) == ("first", "search", "grpo", "tiny")
    assert (summary.step, summary.steps, summary.seconds, summary.problem) == (2, 200, 5.0, None)
    assert summary.curve == [(1, 0.25), (2, 0.5)]
    assert summary.best is not None
    best = summary.best
    assert (best.metric, best.step, best.score.value, best.score.low, best.score.n) == ("exact_match", 1, 0.7, 0.6, 20)
    assert summary.created is not None
    assert summary.updated is not None
    assert summary.created <= summary.updated


def test_a_reader_sees_new_steps_and_those_that_a_resume_repeats(run: Run) -> None:
    reader = SummaryReader(run)
    assert (reader.read().step, reader.read().curve) == (None, [])
    for step in range(1, 4):
        run.append_metrics(step, {"reward/mean": step / 10})
        assert reader.read().step == step
    run.truncate_after(1)
    run.append_metrics(2, {"reward/mean": 0.9, "new": 1.0})
    assert reader.read().curve == [(1, 0.1), (2, 0.9)]
    metrics = MetricsTail(run.path / "metrics.jsonl")
    metrics.update()
    assert metrics.columns() == {"reward/mean": [0.1, 0.9], "new": [None, 1.0]}
    assert metrics.columns(after=1) == {"reward/mean": [0.9], "new": [1.0]}


def test_a_line_is_read_when_it_is_whole(run: Run) -> None:
    run.append_metrics(1, {"reward/mean": 0.1})
    reader, file = SummaryReader(run), run.path / "metrics.jsonl"
    line = json.dumps({"step": 2, "reward/mean": "NaN"}) + "\n"
    with file.open("a") as opened:
        opened.write(line[:9])
        opened.flush()
        assert reader.read().step == 1
        opened.write(line[9:])
    assert (reader.read().step, reader.read().problem) == (2, None)


def test_a_long_curve_has_few_points_and_ends_with_the_newest(run: Run) -> None:
    (run.path / "metrics.jsonl").write_text(
        "".join(json.dumps({"step": step, "reward/mean": step}) + "\n" for step in range(1, 1001))
    )
    curve = RunSummary.of(run).curve
    assert len(curve) == POINTS
    assert (curve[0], curve[-1]) == ((1, 1.0), (1000, 1000.0))


def test_what_is_damaged_is_named_and_the_rest_is_there(run: Run) -> None:
    lines = [json.dumps({"step": 1, "reward/mean": 0.5}), "{no json", json.dumps({"step": 2, "reward/mean": 0.75}), ""]
    (run.path / "metrics.jsonl").write_text("\n".join(lines))
    run.write_evaluation("step_000001", scores(0.5), 1)
    (run.path / "evaluations" / "step_000002.json").write_text("[]")
    (run.path / "config.yaml").write_text("a: [")
    summary = RunSummary.of(run)
    assert (summary.step, summary.algorithm, summary.steps) == (2, None, None)
    assert summary.best is not None
    assert summary.best.score.value == 0.5
    assert summary.problem is not None
    for part in ("line 2 of", "config.yaml is damaged", "step_000002.json is damaged"):
        assert part in summary.problem


def test_a_run_without_evaluations_in_training_shows_the_others(run: Run) -> None:
    run.write_evaluation("eval_1", {**scores(0.4), "sets": {"hard": scores(0.2)}})
    best = RunSummary.of(run).best
    assert best is not None
    assert (best.score.value, best.step) == (0.4, None)
