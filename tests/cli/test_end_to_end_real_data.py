"""Real questions, sums and passages go the whole way: read, indexed, rolled out, trained on, evaluated."""

from __future__ import annotations

import json

import pytest

from agent_r1_core.runs.run import Run

pytestmark = pytest.mark.real_data
SIZES = ("tasks.train.size", "tasks.eval.size")


def test_hotpotqa_in_its_original_format(succeed, changed, real_data):
    path = real_data / "hotpotqa_100.json"
    keys = changed(f"tasks.train.path={path}", "evaluation.size=4", drop=(*SIZES, "rewards"))
    done = succeed("train", "hotpotqa-tiny", *keys)
    assert "4 of 100 training tasks are held out for evaluation" in done.stderr
    run = Run.open("runs/small")
    trained = {trajectory.task.prompt for step in (1, 2) for trajectory in run.read_trajectories(step)}
    questions = {record["question"].strip() for record in json.loads(path.read_text())}
    assert len(trained) == 4
    assert trained <= questions
    for line in run.metrics():
        assert {"reward/exact_match", "reward/f1"} <= line.keys()
    for evaluation in run.evaluations().values():
        assert evaluation["n"] == 4
        assert evaluation["scorers"].keys() >= {"exact_match", "f1", "retrieval_recall"}
        assert "official normalisation" in evaluation["scorers"]["exact_match"]
    succeed("eval", "--model", "runs/small", "--baseline", "naive_rag")
    asked = succeed("rollout", "runs/small", "-n", 40, "seed=5", "evaluation.size=40", "--json")
    tasks = {episode["task"] for episode in json.loads(asked.stdout)["episodes"]}
    assert tasks == set(run.evaluation_tasks().held_out), "not one that was trained on, whatever is asked for"
    succeed("train", "runs/small", "--resume", "training.steps=3", "evaluation.size=2")
    assert not tasks & {trajectory.task.id for step in (1, 2, 3) for trajectory in run.read_trajectories(step)}
    assert run.evaluations()["step_000003"]["n"] == 2


def test_search_over_a_corpus_of_thousands_of_passages(succeed, noise, real_data):
    corpus = real_data / "2wikimultihopqa_corpus.json"
    succeed(
        *("eval", "hotpotqa-tiny", "--model", noise, "--baseline", "naive_rag"),
        *(f"tasks.train.path={real_data / 'hotpotqa_100.json'}", "evaluation.size=4", "run.name=rag", "threads=1"),
        *(f"tools=[{{name: wiki_search, corpus: {corpus}, stemmer: true, top_k: 2}}]", "env.max_tokens=4000"),
        *("env.max_turns=1", "engine.max_new_tokens=8"),
    )
    titles = {passage["title"] for passage in json.loads(corpus.read_text())}
    played = Run.open("runs/rag").read_evaluation_trajectories("eval_1")
    asked = [trajectory.messages()[0]["content"] for trajectory in played]
    assert len(asked) == 4
    for prompt in asked:
        assert sum(line in titles for line in prompt.splitlines()) >= 2, prompt
