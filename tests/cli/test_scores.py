"""Recorded evaluations from the command line: scored again, and compared, without a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_r1_viewer.reading.evaluation_matrix import read_matrix

from agent_r1_core.config import RunConfig, load_config
from agent_r1_core.errors import ConfigError
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.report import report
from agent_r1_core.runs.reading.evaluation_scores import RecordedEvaluations
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import ScoreContract
from agent_r1_core.testing.trajectories import make_task, make_trajectory


@pytest.fixture
def make() -> Callable[..., Path]:
    """`make("a", 30)`: the run `a` with an evaluation that answers the first 30 of 40 questions."""

    def record(name: str, right: int, n: int = 40, metadata: Mapping[str, Any] | None = None, **facts: Any) -> Path:
        tasks = [
            make_task(f"q{index}", f"Where is {index}?", ("Rome",), metadata=metadata or {"hops": 1 + index % 2})
            for index in range(n)
        ]
        made = [make_trajectory(task=task, answer="Rome" if i < right else "Oslo") for i, task in enumerate(tasks)]
        episodes = [EpisodeRecord.of(one) for one in made]
        with Run.create("runs", name, {}, []) as run:
            result = report(episodes, **{"sampling": {"greedy": True}} | facts)
            run.write_evaluation("eval_1", result.to_json(), episodes=[one.to_json() for one in episodes])
        return Path("runs", name)

    return record


def test_a_result_is_scored_again_without_playing_and_what_differs_is_told(agent_r1, succeed, make, refuse):
    make("a", 30)
    done = succeed("eval", "--rescore", "runs/a")
    assert "exact_match        0.750  [0.598, 0.858]" in done.stdout
    assert "hops 1  20  0.750" in done.stdout
    assert "scored again from the 40 episodes of runs/a/evaluations/eval_1.json: no differences" in done.stderr
    answer = json.loads(agent_r1("eval", "--rescore", "runs/a/eval_1", "--json").stdout)
    assert (answer["schema"], answer["differs"], answer["n"]) == (1, [], 40)
    assert answer["breakdowns"]["hops"]["2"]["exact_match"]["n"] == 20
    refuse(1, "runs/b is neither a result file nor a run; give a file of evaluations/", "eval", "--rescore", "runs/b")
    file = Path("runs/a/evaluations/eval_1.json")
    file.write_text(file.read_text().replace('"mean": 0.75', '"mean": 0.8'))
    done = agent_r1("eval", "--rescore", file)
    assert "exact_match: 0.800 [0.598, 0.858] (n = 40, wilson) was recorded, now it is 0.750 [0.598" in done.stdout
    assert json.loads(agent_r1("eval", "--rescore", file, "--json").stdout)["differs"]
    sentence = "--rescore plays no episode, so it takes no recipe, model or other option besides --json"
    for extra in ("default", "--model tiny", "--samples 2", "--silence-tools", "--baseline closed_book"):
        done = agent_r1("eval", "--rescore", "runs/a", *extra.split())
        assert (done.exit_code, sentence in done.stderr) == (2, True), extra


def test_two_runs_are_compared_question_by_question_and_results_with_a_comma_as_seeds(agent_r1, succeed, make, refuse):
    make("a", 30)
    make("b", 20, conditions=["silenced tools"])
    done = succeed("compare", "runs/a", "mute=runs/b/eval_1")
    lines = done.stdout.splitlines()
    assert lines[1].split("  ")[0] == "runs/a"
    assert lines[1].split()[1:5] == ["0.750", "[0.598,", "0.858]", "wilson"]
    assert lines[5].startswith("runs/a - mute  +0.250  [+0.087, +0.389]  0.002  0.002     40")
    assert lines[-2:] == ["mute: runs/b/evaluations/eval_1.json", "mute: silenced tools"]
    answer = json.loads(agent_r1("compare", "runs/a", "runs/b", "--score", "f1", "--json").stdout)
    assert (answer["schema"], answer["score"], answer["differences"][0]["n"]) == (1, "f1", 40)
    assert answer["files"]["runs/b"] == ["runs/b/evaluations/eval_1.json"]
    for name, right in (("a0", 30), ("a1", 32), ("b0", 10), ("b1", 11)):
        make(name, right)
    done = succeed("compare", "ppo=runs/a0,runs/a1", "grpo=runs/b0,runs/b1")
    assert "2 seeds (t), 40 tasks (wilson)" in done.stdout
    assert "ppo - grpo  +0.512" in done.stdout
    alone = succeed("compare", "ppo=runs/a0,runs/a1")
    assert alone.stdout.splitlines()[1].startswith("ppo          0.775  [")
    assert "difference" not in alone.stdout
    refuse(2, "runs/a0,runs/a0 names a result twice", "compare", "runs/a0,runs/a0", "runs/b0")


def test_runs_on_other_questions_are_not_compared_by_mistake(agent_r1, make, refuse):
    make("a", 30)
    make("b", 20, 30)
    refuse(2, "10 of the 40 questions of runs/a were not asked in every other result", "compare", "runs/a", "runs/b")
    unknown = agent_r1("compare", "runs/a", "runs/b", "--score", "em")
    assert "runs/a has no score 'em'; compare by one that all have: exact_match, f1" in unknown.stderr
    shared = agent_r1("compare", "runs/a", "runs/b", "--common")
    assert "runs/a: 10 of 40 questions are left out: others lack them" in shared.stdout


def test_a_plugin_of_one_file_adds_a_score_that_is_read_without_it(agent_r1, changed, root):
    plugin = ["-p", root / "tests/fixtures/end_to_end/scores.py"]
    page = agent_r1("plugins", "show", "half_turns", *plugin).stdout
    assert "turns of two that were taken (share); lower is better" in page
    training = ("training.steps", "training.tasks_per_step", "training.samples_per_task", "tasks.train.size")
    done = agent_r1("eval", "default", *changed("scores=[half_turns, broken]", drop=training), *plugin)
    assert done.exit_code == 0, done.stderr
    assert "episodes lack the score broken, first " in done.stdout
    again = json.loads(agent_r1("eval", "--rescore", "runs/small", "--json").stdout)
    assert (again["differs"], again["declared"]["half_turns"]["bounds"]) == ([], "0 to 1")
    assert 0 < again["metrics"]["score/half_turns"]["mean"] <= 1
    assert "score/broken" not in again["metrics"]
    compared = agent_r1("compare", "a=runs/small", "b=runs/small", "--score", "score/half_turns")
    assert (compared.exit_code, "score/half_turns" in compared.stdout) == (0, True), compared.stderr
    folder = Path("runs/small/evaluations")
    matrix = read_matrix(folder, RecordedEvaluations(folder).all()[0], "score/half_turns")
    assert "score/half_turns" in matrix.scores
    assert [0 < cell <= 1 for (cell,) in matrix.cells if cell is not None] == [True] * 4


def test_a_recipe_lets_a_score_choose_the_best_checkpoint_and_gives_it_time(root):
    def load(best: str) -> RunConfig:
        overrides = ["scores=[half_turns, {name: broken, timeout: 300}]", f"checkpoint.best={best}"]
        return load_config("default", overrides, plugins=[root / "tests/fixtures/end_to_end/scores.py"]).config

    config = load("eval/score/broken")
    assert (config.best_metric, [one.timeout for one in config.scores]) == ("eval/score/broken", [60, 300])
    with pytest.raises(ConfigError, match=r"must be null or one of eval/exact_match, .*, eval/score/broken, not"):
        load("eval/score/half_turns")  # of which less is better


class TestScore(ScoreContract):
    plugin_file = "../fixtures/end_to_end/scores.py"
    name = "half_turns"
    cases = ((make_trajectory(texts=["I look.", "2"]), 1.0),)
