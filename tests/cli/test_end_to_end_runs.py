"""Whole runs from the command line: train, resume, evaluate, look at rollouts; each way of training, each tracker."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.numpy import load_file

from agent_r1_core.runs.run import Run


def test_a_run_tells_its_scores_and_what_to_do_next_and_is_evaluated_and_looked_at(succeed, small, noise, agent_r1):
    done = succeed("train", *small)
    before, after, health, place, policy = done.stdout.splitlines()
    assert before.startswith("before training: exact_match 0.")
    assert "(95 %, wilson, n = 4, greedy)" in after
    assert health == "health: healthy, no alarm in 2 steps"
    assert (place, policy) == ("run: runs/small", "policy: runs/small/model")
    narration = done.stderr.splitlines()
    assert (narration[0], narration[1]) == ("kernels: compiled for this processor", "writing to runs/small")
    assert narration[2].startswith("evaluation before training: exact_match")
    assert [line.partition("  ")[0] for line in narration if line.startswith("step ")] == ["step 1/2", "step 2/2"]
    assert narration[-2].startswith("another run with this seed will differ slightly")
    assert narration[-1] == "next: agent-r1 view runs/small | agent-r1 eval runs/small | agent-r1 rollout runs/small"
    run = Run.open("runs/small")
    assert {"config.yaml", "plugins.json", "metrics.jsonl", "model", "run.json"} <= {p.name for p in run.path.iterdir()}
    assert run.trajectory_steps() == [1, 2]
    assert run.metrics()[-1]["logprob_gap"] < 1e-4
    old, new = (load_file(folder / "model.safetensors") for folder in (noise, run.model))
    assert old.keys() == new.keys()
    assert any((old[name] != new[name]).any() for name in old)

    scored = succeed("eval", "--model", "runs/small", "--json")
    answer = json.loads(scored.stdout)
    assert (answer["schema"], answer["n"]) == (1, 4)
    assert {"exact_match", "f1", "reward/vowels"} <= answer["metrics"].keys()
    assert answer["provenance"]["checkpoint"].startswith("best checkpoint of runs/small, step 2, chosen by eval/")
    assert answer["provenance"]["corpus"].startswith("wiki_search searches 960 passages that come with the questions")
    during = Run.open("runs/small").evaluations()["step_000000"]["provenance"]
    assert during["checkpoint"] == "the policy in training, after step 0; no score chose it"
    assert during["held_out"] == "none of these 4 tasks is in tasks.train"
    trained = agent_r1("eval", "runs/small", "tasks.eval={name: miniwiki, split: train, size: 20}")
    assert "held out: 4 of these 20 tasks are in small's training: the scores are likely too high" in trained.stdout
    assert Path(answer["file"]).is_file()
    sampled = agent_r1("eval", "--model", "runs/small", "--samples", 2, "evaluation.size=3", "--json")
    assert "pass@2" in json.loads(sampled.stdout)["metrics"]
    for extra in (["--baseline", "closed_book"], ["--baseline", "naive_rag"], ["--silence-tools"]):
        done = succeed("eval", "--model", "runs/small", *extra)
        assert done.stdout.startswith("metric ")
        assert ("silenced tools" if extra == ["--silence-tools"] else f"baseline {extra[1]}") in done.stdout
    assert len([name for name in Run.open("runs/small").evaluations() if name.startswith("eval_")]) == 1 + 5
    names = {"agent": 1, "closed_book": 4, "naive_rag": 5, "silenced": 6}
    compared = agent_r1("compare", *(f"{name}=runs/small/eval_{number}" for name, number in names.items()), "--json")
    assert compared.exit_code == 0, "all were asked the same questions, whatever their prompts said: " + compared.stderr
    found = json.loads(compared.stdout)
    assert len(found["differences"]) == 6
    assert any(note.startswith("naive_rag: baseline naive_rag: ") for note in found["notes"])
    again = agent_r1("eval", "--rescore", "runs/small/eval_3", "--json")
    assert json.loads(again.stdout)["differs"] == []
    assert "reward 0.000" in succeed("rollout", "--model", "runs/small", "-n", 1).stdout

    # A baseline is the model that the run began with.
    for name, keys in (("base_tool_call", []), ("react", ["env.system_prompt=null"])):
        scored = succeed("eval", "runs/small", "--baseline", name, *keys, "--json")
        answer = json.loads(scored.stdout)
        assert any(name in condition for condition in answer["conditions"])
        assert "wiki_search" in answer["tools"], "it has the agent's tools"
        assert json.loads(Path(answer["file"]).read_text())["model"] == str(noise)
    trained = agent_r1("eval", "--model", "runs/small", "--baseline", "base_tool_call")
    assert trained.exit_code == 2
    assert "base_tool_call is an untrained model, but the model is the run" in trained.stderr


def test_several_evaluation_sets_are_scored_apart_and_one_of_them_may_choose(agent_r1, succeed, changed):
    sets = "{wiki: {name: miniwiki, split: eval, size: 4}, dev: {name: miniwiki, split: eval, seed: 3, size: 6}}"
    keys = (f"tasks.eval={sets}", "evaluation.choose_on=dev", "checkpoint={every: 1, best: eval/reward/vowels}")
    succeed("train", *changed(*keys, "evaluation.every=1", drop=("tasks.eval.size",)))
    run = Run.open("runs/small")
    last = run.metrics()[-1]
    assert (last["eval/wiki/n"], last["eval/dev/n"], last["eval/n"]) == (4, 6, 4)
    assert last["eval/exact_match"] == last["eval/wiki/exact_match"], "the set that chooses is in no mean"
    assert run.policy().chosen_by == "eval/dev/reward/vowels"
    assert run.evaluations()["step_000002"]["sets"]["dev"]["n"] == 6

    scored = succeed("eval", "runs/small")
    assert f"policy: best checkpoint of runs/small, step {run.policy().step}, chosen by" in scored.stderr
    rows = {line.split()[0] for line in scored.stdout.splitlines() if line}
    assert {"exact_match", "wiki/exact_match", "dev/exact_match"} <= rows
    assert "dev: the checkpoint was chosen among 2 on this very set" in scored.stdout
    assert "wiki: the checkpoint" not in scored.stdout
    assert "wiki: wiki_search: passages 960, corpus tasks.eval" in scored.stdout
    looked = succeed("rollout", "runs/small", "--set", "dev", "-n", 1, "--json")
    (episode,) = json.loads(looked.stdout)["episodes"]
    assert episode["task"] in run.evaluation_tasks().sets["dev"]
    assert agent_r1("rollout", "runs/small", "--set", "maths").exit_code == 2


def test_several_training_sets_are_trained_resumed_and_scored(agent_r1, succeed, changed):
    sets = "{one: {name: miniwiki, hops: [1], size: 20}, two: {name: miniwiki, seed: 3, size: 40, weight: 3}}"
    drop = ("tasks.train.size", "tasks.eval.size")
    keys = changed(f"tasks.train={sets}", "tasks.eval=null", "training.tasks_per_step=4", drop=drop)
    dry = succeed("train", *keys, "--dry-run")
    assert yaml.safe_load(dry.stdout)["tasks"]["train"]["two"]["weight"] == 3
    done = succeed("train", *keys)
    assert "6 of 60 training tasks are held out for evaluation (one 2, two 4)" in done.stderr
    succeed("train", "runs/small", "--resume", "training.steps=3")
    run = Run.open("runs/small")
    for step in (1, 2, 3):
        tasks = {one.task.id: one.task for one in run.read_trajectories(step)}
        assert sorted(task.metadata["source"] for task in tasks.values()) == ["one", "two", "two", "two"]
        assert not tasks.keys() & set(run.evaluation_tasks().held_out)
    assert {"train/one/return", "train/two/return"} <= run.metrics()[-1].keys()
    other = agent_r1("train", "runs/small", "--resume", "tasks.train.one.weight=2")
    assert other.exit_code == 1
    assert "started with other values of tasks.train.one.weight" in other.stderr
    scored = succeed("eval", "runs/small", "--json")
    assert json.loads(scored.stdout)["n"] == 6
    own = agent_r1("eval", "runs/small", "tasks.eval={name: miniwiki, seed: 3, size: 40}", "--json")
    assert "of these 40 tasks are in small's training" in json.loads(own.stdout)["provenance"]["held_out"]


def test_trackers_write_curves_and_traces_without_network(succeed, changed, monkeypatch):
    import socket

    def refuse(*arguments: Any, **_: Any) -> None:
        raise AssertionError(f"something reached for the network: {arguments[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    done = succeed("train", *changed("trackers=[tensorboard, trackio]"))
    assert "tracker " not in done.stderr
    assert done.stdout.splitlines()[-1] == "policy: runs/small/model", "trackers leave the answer alone"
    look = "tensorboard --logdir runs/small | TRACKIO_DIR=runs/small/trackio trackio show --project agent-r1"
    assert done.stderr.splitlines()[-1].endswith(look)

    assert list(Path("runs/small/tensorboard").iterdir())
    (database,) = Path("runs/small/trackio").glob("*.db")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        steps = connection.execute("SELECT DISTINCT step FROM traces ORDER BY step").fetchall()
        logged = connection.execute("SELECT DISTINCT step FROM metrics ORDER BY step").fetchall()
    assert steps == [(1,), (2,)]
    assert {(1,), (2,)} <= set(logged)


def test_a_plugin_file_is_part_of_the_run_and_a_changed_one_is_refused(succeed, refuse, changed, root, tmp_path):
    own = tmp_path / "own_reward.py"
    shutil.copy(root / "tests/fixtures/end_to_end/vowels.py", own)
    keys = [text for text in changed() if "=" in text]
    succeed("train", *keys, "-p", "own_reward.py")
    (entry,) = [plugin for plugin in Run.open("runs/small").plugins() if plugin["name"] == "own_reward"]
    assert entry["value"] == str(own)
    assert len(entry["file_hash"]) >= 32
    own.write_text(own.read_text().replace("aeiou", "xyz"))
    sentence = "error: plugin 'own_reward' has changed since the run began: file hash "
    refused = refuse(1, sentence, "train", "runs/small", "--resume", "training.steps=3")
    assert refused.stderr.endswith("use --force to continue anyway\n")
    succeed("train", "runs/small", "--resume", "--force", "training.steps=3")
    own.unlink()
    refuse(2, "own_reward.py", "train", "runs/small", "--resume")


def test_a_resume_of_a_finished_run_changes_nothing_and_says_how_to_train_it_further(agent_r1, succeed, small):
    def state() -> dict[Path, tuple[int, bytes | None]]:
        entries = [Path("runs"), *Path("runs").rglob("*")]
        return {entry: (entry.stat().st_mtime_ns, entry.read_bytes() if entry.is_file() else None) for entry in entries}

    first = succeed("train", *small)
    before = state()
    done = succeed("train", "runs/small", "--resume")
    assert done.stderr.startswith("runs/small has completed all its 2 steps; set training.steps for more\n")
    assert done.stdout == first.stdout
    succeed("train", *small, "--resume")
    assert state() == before
    for dry in ([], ["--dry-run"]):
        refused = agent_r1("train", "runs/small", "--resume", "training.lr=1", *dry)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "started with other values of training.lr; resume it as it is" in refused.stderr
    assert state().keys() == before.keys()

    succeed("train", "runs/small", "--resume", "health.early_stop=true")
    assert Run.open("runs/small").setting("health.early_stop") is True, "what differs is recorded"


def test_a_run_without_rewards_is_told_before_it_begins(succeed, changed):
    done = succeed("train", *changed("rewards=[]", "training.steps=1"))
    assert done.stderr.startswith("no reward has a weight: ")
    assert "step 1: the returns of every group are all equal" in done.stderr


@pytest.mark.slow
def test_a_real_process_narrates_in_our_words_alone(changed):
    """No library's warning, progress bar or banner reaches the user."""
    call = [sys.executable, "-c", "from agent_r1_cli.main import main; main()", "train", *changed("training.steps=1")]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours = ("kernels: ", "writing to ", "another run ", "evaluation ", "step 1/1  ", "step 1: ", "next: ")
    assert [line for line in done.stderr.splitlines() if not line.startswith(ours)] == []
    assert len(done.stdout.splitlines()) == 5
