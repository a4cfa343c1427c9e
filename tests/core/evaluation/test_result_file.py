"""A recorded evaluation is found by its file, its run or its name, and its episodes alone give its scores again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core import CallRecord, EndStatus, Run
from agent_r1_core.errors import RunError
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.report import EvaluationResult, combine, report
from agent_r1_core.evaluation.result_file import ResultFile, differences
from agent_r1_core.runs.evaluation_file import read_episodes, read_evaluation, write_evaluation
from agent_r1_core.testing.trajectories import make_task, make_trajectory

STATED: dict[str, Any] = {"sampling": {"greedy": False, "temperature": 1.0}, "samples": 2, "conditions": ["a remark"]}


def episodes(right: int, n: int, set_name: str = "") -> list[EpisodeRecord]:
    """Two samples of `n` tasks, of which the first `right` are answered rightly; one episode failed."""
    out = []
    for index in range(n):
        task = make_task(f"{set_name}{index}", "Where?", ("Rome",), metadata={"hops": 1 + index % 2, "path": ["Rome"]})
        for sample in range(2):
            answer = "Rome" if index < right else "Oslo" if sample else None
            rewards = {"shaped": index / 7}
            made = make_trajectory(task=task, sample=sample, answer=answer, rewards=rewards, reward=index / 7)
            made.turns[0].calls = [CallRecord("wiki_search", error="away" if sample else None)]
            out.append(made)
    lost = make_trajectory(task=make_task(f"{set_name}lost"), status=EndStatus.FAILED)
    return [EpisodeRecord.of(one, set_name=set_name) for one in (*out, lost)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    with Run.create(tmp_path, "run", {}, []) as made:
        return made


def write(run: Run, name: str, *parts: list[EpisodeRecord], step: int | None = None) -> EvaluationResult:
    """Record an evaluation of these sets."""
    results = {part[0].set: report(part, tools={"wiki_search": {"passages": 3}}, **STATED) for part in parts}
    result = results[""] if "" in results else combine(results, "choose" if "choose" in results else None)
    run.write_evaluation(name, result.to_json(), step, [one.to_json() for part in parts for one in part])
    return result


def test_the_same_scores_come_from_the_episodes_alone(run: Run) -> None:
    result = write(run, "eval_1", episodes(4, 10))
    file = ResultFile.open(run.path)
    assert file.rescored() == file.recorded == result
    assert differences(file.recorded, file.rescored()) == []
    assert result.metrics.keys() > {"exact_match", "pass@2", "reward/shaped", "retrieval_recall"}
    assert result.breakdowns["hops"].keys() == {"1", "2"}
    told = "10 of 20 tool calls ended in errors; 10 of them: wiki_search: away"
    assert result.conditions == ("a remark", told), "once, though scored again"
    several = write(run, "eval_2", episodes(4, 10, "wiki"), episodes(9, 10, "choose"))
    file = ResultFile.open(run.path)
    assert file.rescored() == file.recorded == several
    assert file.rescored().metrics["exact_match"].mean == 0.4, "the set that chooses enters no mean"
    for old, new, count in ((None, None, 0), (0.25, 0.25 + 1e-12, 0), (0.25, None, 1), (0.25, 0.2501, 1)):
        one, other = (
            replace(result, metrics={"f1": replace(result.metrics["f1"], mean=0.5, low=low)}) for low in (old, new)
        )
        assert len(differences(one, other)) == count, "rounding is none, nor is that there is no interval"


def test_what_differs_from_the_record_is_told(run: Run) -> None:
    write(run, "eval_1", episodes(4, 10, "wiki"), episodes(9, 10, "maths"))
    path = run.path / "evaluations" / "eval_1.json"
    data = read_evaluation(path)
    rows = read_episodes(path, data)
    rows[8]["prediction"] = rows[9]["prediction"] = "Rome"
    del data["sets"]["wiki"]["metrics"]["f1"]
    data["sets"]["wiki"]["scorers"]["exact_match"] = "letters"
    write_evaluation(path, data, rows)
    file = ResultFile.open(path)
    found = differences(file.recorded, file.rescored())
    told = "wiki/exact_match: 0.400 [0.168, 0.687] (n = 10, wilson) was recorded, now it is 0.500 [0.237, 0.763]"
    assert any(sentence.startswith(told) for sentence in found)
    assert any(sentence.startswith("wiki/f1: nothing was recorded, now it is 0.500") for sentence in found)
    assert "wiki/exact_match was recorded with another scorer: letters" in found
    assert any(sentence.startswith("exact_match: 0.650 ") for sentence in found), "the mean over the sets, too"
    assert not any(sentence.startswith("maths/") for sentence in found)


def test_a_run_means_its_last_evaluation_and_others_have_names(run: Run) -> None:
    with pytest.raises(RunError, match="has no evaluation yet; make one with: agent-r1 eval"):
        ResultFile.open(run.path)
    for step in (0, 20):
        write(run, f"step_{step:06d}", episodes(1, 2), step=step)
    assert ResultFile.open(run.path).path.name == "step_000020.json"
    for number in (2, 9, 10):
        write(run, f"eval_{number}", episodes(1, 2))
    folder = run.path / "evaluations"
    assert ResultFile.open(run.path).path == folder / "eval_10.json"
    assert ResultFile.open(run.path / "eval_2").path == folder / "eval_2.json"
    assert ResultFile.open(folder / "eval_2.jsonl").path == folder / "eval_2.json"
    kept = folder / "mine.copy"
    kept.write_bytes((folder / "eval_2.json").read_bytes())
    assert ResultFile.open(kept).path == kept, "whatever it is called"
    with pytest.raises(RunError, match=r"has no evaluation 'eval_3'; it has: step_000000, .*eval_10"):
        ResultFile.open(run.path / "eval_3")


@pytest.mark.parametrize(
    "change",
    [
        lambda data, rows: data.pop("metrics"),
        lambda data, rows: data.update(metrics={"f1": {"mean": "much"}}),
        lambda data, rows: data.update(sets={"elsewhere": {**data, "sets": {}}}),
        lambda data, rows: rows[0].pop("task"),
        lambda data, rows: rows[0].update(status="lost"),
        lambda data, rows: [row.update(status="failed") for row in rows],
    ],
)
def test_a_file_that_agent_r1_did_not_write_is_refused_in_a_sentence(
    run: Run, change: Callable[[dict[str, Any], list[dict[str, Any]]], object]
) -> None:
    write(run, "eval_1", episodes(1, 2))
    path = run.path / "evaluations" / "eval_1.json"
    data = json.loads(path.read_text())
    rows = read_episodes(path, data)
    change(data, rows)
    write_evaluation(path, data, rows)
    with pytest.raises(RunError, match=r"eval_1\.json is damaged"):
        ResultFile.open(path).rescored()
