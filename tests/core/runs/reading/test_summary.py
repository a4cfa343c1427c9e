"""What a list of runs says about a run: read again as the run grows, and whatever of it is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_r1_core.config.yaml_text import dump
from agent_r1_core.errors import RunError
from agent_r1_core.runs.reading.metrics_tail import MetricsTail
from agent_r1_core.runs.reading.summary import POINTS, RunSummary, SummaryReader, read_sections
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_trajectory

CONFIG = {"model": {"name": "tiny"}, "algorithm": {"name": "grpo"}, "training": {"steps": 200}} | {
    "checkpoint": {"best": "eval/exact_match"}
}


def scores(value: float) -> dict[str, object]:
    """The result of an evaluation of 20 questions."""
    estimate = {"mean": value, "low": value - 0.1, "high": value + 0.1, "method": "wilson", "n": 20}
    return {"metrics": {"exact_match": estimate, "reward/mean": {**estimate, "mean": -value}}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, "first", CONFIG, [], recipe="search")


def test_a_summary_says_what_the_files_say(run: Run) -> None:
    run.write_evaluation("eval_1", {**scores(0.4), "sets": {"hard": scores(0.2)}})  # of other questions, perhaps
    best = RunSummary.of(run).best
    assert (best.score.mean, best.step) == (0.4, None), "there are none in training"
    run.append_metrics(1, {"reward/mean": 0.25, "time/step": 2.0})
    run.append_metrics(2, {"reward/mean": 0.5, "time/step": 3.0})
    for step, value in ((0, 0.3), (1, 0.7), (2, 0.7)):
        run.write_evaluation(f"step_{step:06d}", scores(value), step)
    run.write_evaluation("eval_1", scores(0.9))
    summary = RunSummary.of(run)
    assert (summary.name, summary.recipe, summary.algorithm, summary.model) == ("first", "search", "grpo", "tiny")
    assert (summary.step, summary.steps, summary.seconds, summary.problem) == (2, 200, 5.0, None)
    assert summary.curve == [(1, 0.25), (2, 0.5)]
    best = summary.best
    assert (best.metric, best.step, best.score.mean, best.score.low, best.score.n) == ("exact_match", 1, 0.7, 0.6, 20)
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


def test_an_edition_lasts_as_long_as_the_steps_that_were_read(run: Run) -> None:
    for step in range(1, 4):
        run.append_metrics(step, {"reward/mean": step / 10})
    tail, file = MetricsTail(run.path / "metrics.jsonl"), run.path / "metrics.jsonl"
    editions = []

    def read() -> list[float | None]:
        tail.update()
        editions.append(tail.edition)
        return tail.column("reward/mean")

    assert read() == [0.1, 0.2, 0.3]
    run.append_metrics(4, {"reward/mean": 0.4})
    assert read() == [0.1, 0.2, 0.3, 0.4]
    assert editions[1] == editions[0]
    with file.open("a") as opened:
        opened.write('{"step": 2, "reward/mean": 0.8}\n')
    assert read() == [0.1, 0.8]
    file.write_text(file.read_text().replace("0.8", "0.9") + '{"step": 3, "reward/mean": 1.0}\n')  # the same inode
    assert read() == [0.1, 0.9, 1.0]
    run.truncate_after(1)
    assert read() == [0.1]
    assert len(set(editions)) == 4


def test_a_line_is_read_when_it_is_whole_and_a_long_curve_has_few_points_and_the_newest(run: Run) -> None:
    run.append_metrics(1, {"reward/mean": 0.1})
    reader, file = SummaryReader(run), run.path / "metrics.jsonl"
    line = json.dumps({"step": 2, "reward/mean": "NaN"}) + "\n"
    with file.open("a") as opened:
        opened.write(line[:9])
        opened.flush()
        assert reader.read().step == 1
        opened.write(line[9:])
    assert (reader.read().step, reader.read().problem) == (2, None)
    lines = [json.dumps({"step": step, "reward/mean": step}) + "\n" for step in range(1, 1001)]
    file.write_text("".join(lines))
    curve = RunSummary.of(run).curve
    assert len(curve) == POINTS
    assert (curve[0], curve[-1]) == ((1, 1.0), (1000, 1000.0))


def test_what_is_damaged_is_named_and_the_rest_is_there(run: Run) -> None:
    """What a configuration says in another kind is not known."""
    odd = {"model": {"name": 3}, "algorithm": ["grpo"], "training": {"steps": "many"}, "checkpoint": {"best": 0.5}}
    (run.path / "config.yaml").write_text(dump(odd))
    summary = RunSummary.of(run)
    assert (summary.model, summary.algorithm, summary.steps, summary.problem) == (None, None, None, None)
    lines = [json.dumps({"step": 1, "reward/mean": 0.5}), "{no json", json.dumps({"step": 2, "reward/mean": 0.75}), ""]
    (run.path / "metrics.jsonl").write_text("\n".join(lines))
    run.write_evaluation("step_000001", scores(0.5), 1)
    (run.path / "evaluations" / "step_000002.json").write_text("[]")
    for step, bad in ((3, {"mean": 10**400, "n": 1}), (4, {"mean": 0.5, "n": float("inf")})):
        run.write_evaluation(f"step_{step:06d}", {"metrics": {"exact_match": bad}}, step)
    (run.path / "config.yaml").write_text("a: [")
    summary = RunSummary.of(run)
    assert (summary.step, summary.algorithm, summary.steps) == (2, None, None)
    assert summary.best.score.mean == 0.5
    for part in ("line 2 of", "config.yaml is damaged", *(f"step_00000{step}.json is damaged" for step in (2, 3, 4))):
        assert part in summary.problem


def test_damaged_and_missing_lines_are_one_sentence(run: Run) -> None:
    whole = [json.dumps({"step": step, "reward/mean": 0.5}) for step in (5, 7)]
    (run.path / "metrics.jsonl").write_text("\n".join(["{", "[]", "3", "", whole[0], "{}", whole[1], ""]))
    reader = SummaryReader(run)
    said = f"lines 1 to 4, 6 of {run.path / 'metrics.jsonl'} are not the metrics of steps; delete the lines"
    assert (reader.read().problem, reader.problems, reader.metrics.steps) == (said, [said], [5, 7])
    (run.path / "metrics.jsonl").write_text(f"{{\n{whole[0]}\n" * 1000)
    assert str(reader.read().problem).startswith("1000 of the lines 1 to 1999 of /"), "a sentence stays one"
    (run.path / "metrics.jsonl").write_text("\n".join([*whole, ""]))
    assert reader.read().problem == f"{run.path / 'metrics.jsonl'} lacks steps 1 to 4, 6; restore it"
    (run.path / "metrics.jsonl").write_text("\n".join([*whole, json.dumps({"step": 10**15}), ""]))
    assert "lacks steps 1 to 4, 6, 8 to 999999999999999;" in str(reader.read().problem)
    (run.path / "metrics.jsonl").write_text("".join(json.dumps({"step": 2 * step}) + "\n" for step in range(1, 1000)))
    assert str(reader.read().problem).endswith("lacks steps 1, 3, 5, 7, 9, ...; restore it")


def test_metrics_that_are_missing_are_missed_once_there_was_a_step(run: Run) -> None:
    for step in (1, 2):  # those of the first come before its metrics
        assert RunSummary.of(run).problem is None
        write_trajectories(run.trajectory_file(step), step, [make_trajectory()])
    problem = RunSummary.of(run).problem
    assert "has episodes of training, but no metrics.jsonl" in problem
    run.append_metrics(1, {"reward/mean": 0.5})
    assert RunSummary.of(run).problem is None


def test_the_best_score_is_of_the_metric_that_chooses_checkpoints(run: Run) -> None:
    run.write_evaluation("step_000001", {**scores(0.5), "sets": {"hard": scores(0.2)}}, 1)
    run.write_evaluation("step_000002", {**scores(0.3), "sets": {"hard": scores(0.4)}}, 2)
    hard, other = ("eval/hard/exact_match", (0.4, 2)), (0.5, 1)
    for measured, shown in (("eval/exact_match", other), hard, (None, other), ("eval/gone", other)):
        (run.path / "config.yaml").write_text(dump({"checkpoint": {"best": measured}}))
        best = RunSummary.of(run).best
        assert (best.score.mean, best.step) == shown


SECTIONS = {
    "model": {"name": "tiny", "lora": None},
    "env": {"system_prompt": "First line.\n\ntraining: not a section\n  steps: 3\n", "name": "qa"},
    "tools": [{"name": "wiki_search"}],
    "training": {"steps": 25, "lr": 1e-6},
    "deterministic": False,
    "sources": {"training.steps": "a.yaml, line 3"},
}


def test_sections_are_those_of_the_whole_and_damage_of_a_configuration_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(dump(SECTIONS))
    for names in (("model",), ("training", "sources"), ("env", "tools"), ("deterministic",), SECTIONS):
        assert read_sections(path, [*names, "gone"]) == {name: SECTIONS[name] for name in names}
    for content in (b"training: [", b"\xff", b"- a\n", b""):
        path.write_bytes(content)
        with pytest.raises(RunError, match=r"config\.yaml is damaged: it is not what agent-r1 wrote"):
            read_sections(path, ["training"])
