"""LAW 12: a score comes with its scorer, its n and its uncertainty."""

from __future__ import annotations

import json
import string
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from stage import Stage, call

from agent_r1_core.assembly.model_source import ModelSource
from agent_r1_core.assembly.task_sets import load_tasks, record
from agent_r1_core.config import ResolvedConfig, load_config
from agent_r1_core.contracts.tool import Tool, ToolArguments, ToolContext
from agent_r1_core.evaluation.arm import Arm
from agent_r1_core.evaluation.compare import Difference, compare
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.intervals import wilson
from agent_r1_core.evaluation.provenance import provenance
from agent_r1_core.evaluation.report import EvaluationResult, combine, report
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.metrics.scorers import exact_match_score, f1_score, substring_match_score
from agent_r1_core.runs.evaluation_file import EvaluationTasks, write_evaluation
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing import ScriptedPolicy
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import CallRecord, EndStatus, Task

SAMPLING = {"greedy": True, "temperature": 0.0, "max_new_tokens": 64, "seed": 0}


def asked(name: str) -> Task:
    return make_task(name, f"Where is {name}?", ("Rome",), metadata={"path": ["Rome"]})


def played(answers: Mapping[str, str | None]) -> list[EpisodeRecord]:
    """An episode for each task, with the answer that it came to."""
    return [EpisodeRecord.of(make_trajectory(task=asked(name), answer=answer)) for name, answer in answers.items()]


@pytest.fixture
def result() -> EvaluationResult:
    """200 tasks: 77 answered exactly, 40 with more words around the answer, 83 not at all; one episode failed."""
    episodes = [make_trajectory(task=make_task("lost"), status=EndStatus.FAILED, answer="Rome")]
    for index, answer in enumerate(["The Rome!"] * 77 + ["It is Rome"] * 40 + [None] * 83):
        task, rewards = make_task(f"task-{index}", "Where?", ("Rome",)), {"shaped": index / 200}
        episodes.append(make_trajectory(task=task, answer=answer, rewards=rewards))
    return report([EpisodeRecord.of(one) for one in episodes], sampling=SAMPLING)


def test_exact_match_is_the_official_one_and_substring_match_bears_its_own_name(result: EvaluationResult) -> None:
    assert exact_match_score("  An ONLY-child. ", ["onlychild"]) == 1.0
    assert exact_match_score("Rome, Italy", ["Rome"]) == 0.0
    assert substring_match_score("Rome, Italy", ["Rome"]) == 1.0
    assert all(exact_match_score(f"a{mark}b", ["ab"]) == 1.0 for mark in string.punctuation)
    assert f1_score("yes indeed", ["yes"]) == 0.0
    assert result.metrics["exact_match"].mean == pytest.approx(77 / 200)
    assert "official" in result.scorers["exact_match"]


def test_an_exact_match_that_says_something_else_is_named() -> None:
    """The official normalisation drops signs, points and articles."""
    task = make_task("sum", "What is 2 - 40?", ("-38",))
    right, wrong = (EpisodeRecord.of(make_trajectory(task=task, answer=answer)) for answer in ("-38.", "38"))
    named = "exact_match drops signs, points and articles: 1 of its 2 matches say something else than is accepted"
    assert report([right], sampling=SAMPLING).conditions == ()
    assert report([right, wrong], sampling=SAMPLING).conditions == (f"{named}, such as '38' for '-38'",)


def test_every_score_has_its_n_and_an_interval_that_fits_it(result: EvaluationResult) -> None:
    """Shares carry Wilson's, other scores a bootstrap over tasks."""
    for name, value in result.metrics.items():
        assert value.n == 200, name
        assert value.low <= value.mean <= value.high, name
    exact, shaped = result.metrics["exact_match"], result.metrics["reward/shaped"]
    assert exact.method == "wilson"
    assert (exact.low, exact.high) == pytest.approx((0.3203, 0.4540), abs=5e-5)
    assert (exact.low, exact.high) == wilson(77 / 200, 200)
    assert shaped.method == "bootstrap over tasks"
    # The mean of 200 evenly spread values has a standard error of .289 / sqrt(200).
    assert shaped.high - shaped.low == pytest.approx(2 * 1.96 * 0.2887 / 200**0.5, rel=0.1)


def test_nothing_seen_is_not_nothing_there() -> None:
    never = report(played({f"task-{index}": None for index in range(20)}), sampling=SAMPLING).metrics["exact_match"]
    assert (never.mean, never.low, never.high) == pytest.approx((0.0, 0.0, 0.1611), abs=1e-4)


def compared(one: dict[str, bool], other: dict[str, bool]) -> Difference:
    """What `compare` says of two policies, given which questions each answered rightly, in the order of recording."""

    def arm(name: str, right: dict[str, bool]) -> Arm:
        episodes = played({task: "Rome" if right[task] else "Oslo" for task in right})
        return Arm(name, [ResultFile(Path(f"{name}.json"), report(episodes, sampling=SAMPLING), episodes)])

    return compare([arm("one", one), arm("other", other)]).differences[0]


def test_four_wins_of_four_or_five_wins_of_five_are_no_proof_and_a_tie_is_no_equality() -> None:
    for questions in ("abcd", "abcde"):
        won = compared(dict.fromkeys(questions, True), dict.fromkeys(questions, False))
        assert (won.mean, won.p, won.n) == (1.0, 2 / 2 ** len(questions), len(questions))
        assert won.low <= 0.0
    tie = compared({f"q{k}": k < 10 for k in range(20)}, {f"q{k}": k < 10 for k in range(20)})
    assert (tie.mean, tie.p) == (0.0, 1.0)
    assert (tie.low, tie.high) == pytest.approx((-0.137, 0.137), abs=1e-3)


def test_the_same_questions_are_held_against_each_other_in_whatever_order_they_stand() -> None:
    right = {f"q{k}": k < 12 for k in range(20)}
    backwards = dict(reversed(right.items()))
    assert compared(right, backwards) == compared(right, right)
    assert compared(right, backwards).p == 1.0


def test_failed_episodes_are_stated_and_neither_help_nor_harm_and_the_file_of_an_evaluation_says_it_all(
    result: EvaluationResult, tmp_path: Path
) -> None:
    assert result.n == 200
    assert result.statuses == {"terminated": 200, "failed": 1}
    assert "failed and not scored: 1" in result.sentence()
    with Run.create(tmp_path, "run", {}, []) as run:
        path = run.write_evaluation("final", result.to_json(), step=30)
    data = json.loads(path.read_text())
    assert (data["step"], data["n"], data["samples"], data["sampling"]) == (30, 200, 1, SAMPLING)
    assert set(data["metrics"]["exact_match"]) == {"mean", "low", "high", "method", "n", "asked"}
    assert data["scorers"].keys() == {"exact_match", "f1", "substring_match"}
    assert data["statuses"]["failed"] == 1


def test_the_file_of_an_evaluation_is_enough_to_score_it_again_without_a_model(tmp_path: Path) -> None:
    episodes = played({"a": "Rome", "b": "Rome"})
    with Run.create(tmp_path, "run", {}, []) as run:
        result = report(episodes, sampling=SAMPLING)
        path = run.write_evaluation("eval_1", result.to_json(), episodes=[one.to_json() for one in episodes])
    code = (
        "import sys; from agent_r1_core.evaluation.result_file import ResultFile\n"
        f"print(ResultFile.open({str(path)!r}).rescored().metrics['exact_match'], 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{result.metrics['exact_match']} False\n"
    lines = path.with_suffix(".jsonl").read_text().replace('"prediction": "Rome"', '"prediction": "Oslo"', 1)
    write_evaluation(path, json.loads(path.read_text()), [json.loads(line) for line in lines.splitlines()])
    assert ResultFile.open(path).recorded == result
    assert ResultFile.open(path).rescored().metrics["exact_match"].mean == 0.5


def test_only_held_out_tasks_are_scored_whatever_an_evaluation_asks_for(tmp_path: Path) -> None:
    def recipe(*overrides: str) -> ResolvedConfig:
        return load_config("default", ["tasks.train={name: arithmetic, size: 300}", "tasks.eval=null", *overrides])

    begun = load_tasks(recipe("evaluation.size=20"), ["train", "eval"], print)
    with Run.create(tmp_path, "run", {}, []) as run:
        run.write_evaluation_tasks(record(begun))
    later = load_tasks(recipe("evaluation.size=200", "seed=1"), ["eval"], print, run.path)
    trained = {task.id for task in begun["train"].tasks}
    assert not trained & {task.id for task in later["eval"].tasks}
    assert len(later["eval"].tasks) == 20


def test_the_best_of_several_checkpoints_on_these_very_tasks_is_called_so(tmp_path: Path) -> None:
    with Run.create(tmp_path, "run", {}, []) as run:
        run.write_evaluation_tasks(EvaluationTasks({"dev": ("a", "b"), "test": ("c",)}))
        for step in (1, 2, 3):
            run.checkpoints.save(step, lambda folder: None, metric="eval/dev/exact_match", value=1 / step)
    source = ModelSource(run.policy().folder, "run", run.path, run.policy())
    one, two, three = map(asked, "abc")
    said = "the checkpoint was chosen among 3 on this very set: the scores are likely too high"
    assert source.chosen_among([one, two]) == [said]
    assert "on 1 of these 2 tasks" in source.chosen_among([one, three])[0]
    assert source.chosen_among([three]) == []
    (run.path / "evaluation_tasks.json").unlink()
    assert "among 3, on tasks that are not known" in source.chosen_among([three])[0]


def test_tasks_that_were_trained_on_are_called_so(tmp_path: Path) -> None:
    trained, fresh = asked("a"), asked("b")
    with Run.create(tmp_path, "run", {}, []) as run:
        write_trajectories(run.trajectory_file(1), 1, [make_trajectory(task=trained)])
        run.append_metrics(1, {})
        run.checkpoints.save(1, lambda folder: None)
    source = ModelSource(run.policy().folder, "run", run.path, run.policy())
    said = provenance(source, [trained, fresh], {})["held_out"]
    assert said == "1 of these 2 tasks are in run's training: the scores are likely too high"
    assert provenance(source, [fresh], {})["held_out"] == "none of these 1 tasks is in run's training"
    assert provenance(source, [replace(trained, id="other")], {})["held_out"].startswith("1 of these 1 tasks are in")


def test_the_set_that_chooses_checkpoints_enters_no_mean(result: EvaluationResult) -> None:
    other = report(played({"a": "Rome"}), sampling=SAMPLING)
    both = combine({"report": result, "choose": other}, choosing_set="choose")
    assert both.metrics["exact_match"] == result.metrics["exact_match"]


def test_no_tool_knows_the_answers() -> None:
    """A tool that looks for the answer in everything that it gets finds none."""
    seen: list[str] = []

    class Spy(Tool):
        name = "spy"

        class Arguments(ToolArguments):
            query: str

        def run(self, arguments: Arguments, context: ToolContext) -> str:
            seen.append(repr(context))
            return "nothing"

    Stage(ScriptedPolicy([call("spy", query="x"), "<answer>no idea</answer>"]), [Spy()]).play([asked("t")])
    assert len(seen) == 1
    assert "Where is t?" in seen[0]
    assert "Rome" not in seen[0]


def test_a_policy_finds_nothing_by_writing_a_title_into_its_call() -> None:
    called, found = make_trajectory(task=asked("t")), make_trajectory(task=asked("u"))
    called.turns[0].calls = [CallRecord("wiki_search", {"query": "x\nRome"})]
    called.turns[1].observation = [{"role": "tool", "content": 'Results for "x\nRome\n":\nNo passage found.'}]
    found.turns[1].observation = [{"role": "tool", "content": "Rome\nRome is a city."}]
    metrics = report([EpisodeRecord.of(called), EpisodeRecord.of(found)], sampling=SAMPLING).metrics
    assert metrics["retrieval_recall"].mean == 0.5
