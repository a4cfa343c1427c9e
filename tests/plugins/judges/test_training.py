"""Runs that learn from a judge: its calls are recorded and counted, and a judge that fails is no zero (LAW 5)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_r1_judges.asking import JudgeError
from agent_r1_judges.rubric import Judge
from scripted_judge import ScriptedJudge, block_of

from agent_r1_core import Run, train
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.trajectory import EndStatus

pytestmark = pytest.mark.slow
FEW = ["training.steps=2", "training.tasks_per_step=3", "training.samples_per_task=4", "evaluation.every=0"]
SMALL = [*FEW, "tasks.eval.size=4", "tasks.train={name: arithmetic, terms: 5, size: 40}", "deterministic=true"]


def trained(judge: ScriptedJudge, tmp_path: Path, *overrides: str) -> Run:
    return train("judge", [*SMALL, f"run.dir={tmp_path}", *overrides])


def is_right(data: dict[str, Any], answer: str) -> bool:
    expression = str(data["task"]).removeprefix("What is ").removesuffix("?")
    return answer.strip() == str(eval(expression))


def test_the_recipe_trains_on_the_grades_of_a_judge(judge: ScriptedJudge, tmp_path: Path) -> None:
    right = lambda data: is_right(data, data["answer"])
    judge.says = lambda request: json.dumps({"correct": 10 * right(judge.data()), "bare": 10})
    run = trained(judge, tmp_path, f"rewards.0.address={judge.address}", "rewards.0.key=null", "rewards.0.at_once=1")
    steps = run.metrics()
    assert steps[0]["reward/judge/agreement"] == 1
    assert steps[0]["reward/judge/prompt_tokens"] > 0
    episodes = [one for step in (1, 2) for one in run.read_trajectories(step)]
    notes = [one.turns[-1].notes["judge"] for one in episodes if one.answer is not None]
    asked = sum(note["prompt_tokens"] for note in notes)
    assert 0 < asked <= 100 * len(judge.requests), "the others were asked in evaluations"
    assert all(note["grades"]["bare"] == 10 and note["reply"] for note in notes)
    assert {one.rewards["judge"] for one in episodes} >= {0.25, 1.0}
    assert run.evaluations()["step_000002"]["metrics"]["reward/judge"]["mean"] > 0


def test_a_judge_that_fails_now_and_then_drops_episodes_and_trains_on_no_zero(judge, tmp_path):
    judge.says = lambda request: "I would rather not." if len(judge.requests) % 3 == 0 else '{"correct": 9, "bare": 9}'
    options = [f"rewards.0.address={judge.address}", "rewards.0.key=null", "rewards.0.retries=0", "rewards.0.at_once=1"]
    quiet = ["evaluation.at_start=false", "evaluation.at_end=false", "checkpoint.best=null", "training.max_retries=0"]
    run = trained(judge, tmp_path, *options, *quiet)
    every = [one for step in (1, 2) for one in run.read_trajectories(step, dropped=True)]
    failed = [one for one in every if one.status is EndStatus.FAILED]
    assert failed
    assert all("gave no verdict: its reply is not JSON alone" in one.reason for one in failed)
    assert all("judge" not in one.rewards for one in failed)
    assert {one.rewards["judge"] for one in every if one not in failed and one.answer is not None} == {0.9}
    assert sum(step["rollout/failed"] for step in run.metrics()) == len(failed)


def test_groups_are_ranked_in_training_and_not_in_evaluations(judge: ScriptedJudge, tmp_path: Path) -> None:
    def rank(request: dict[str, Any]) -> str:
        data = json.loads(block_of(request))
        order = sorted(data["answers"], key=lambda number: not is_right(data, data["answers"][number]))
        return json.dumps({"ranking": [int(number) for number in order]})

    judge.says = rank
    rewards = f"rewards=[{{name: judge_comparison, address: '{judge.address}'}}]"
    run = trained(judge, tmp_path, rewards, "checkpoint.best=null")
    episodes = [one for step in (1, 2) for one in run.read_trajectories(step)]
    assert all(0 <= one.rewards["judge_comparison"] <= 1 for one in episodes)
    by_task: dict[tuple[str, int], list[float]] = {}
    for place, one in enumerate(episodes):
        by_task.setdefault((one.task.id, place // 12), []).append(one.rewards["judge_comparison"])
    assert all(sum(scores) == pytest.approx(len(scores) / 2) for scores in by_task.values())
    assert any(step.get("reward/judge_comparison/agreement", 0) == 1 for step in run.metrics())
    assert "reward/judge_comparison" not in next(iter(run.evaluations().values()))["metrics"]


def test_a_frozen_model_of_agent_r1_serve_can_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundled model writes no JSON, and that is what the error says."""
    environment = {**os.environ, "AGENT_R1_SERVE_KEY": "mine"}
    command = [sys.executable, "-c", "from agent_r1_cli.main import main; main()", "serve", "--port", "0"]
    served = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert served.stdout is not None
        address = re.search(r"http://\S+", served.stdout.readline())
        assert address is not None
        monkeypatch.setenv("AGENT_R1_SERVE_KEY", "mine")
        options: dict[str, Any] = {"address": address[0], "retries": 0, "request_timeout": 100.0}
        episode = make_trajectory(task=make_task("2 + 2?", answers=("4",)), answer="4")
        with pytest.raises(JudgeError, match=r"gave no verdict: its reply is not JSON alone; .* tokens\)"):
            asyncio.run(Judge(Judge.Config(**options, key="AGENT_R1_SERVE_KEY")).score(episode))
        with pytest.raises(JudgeError, match="answered 401"):
            asyncio.run(Judge(Judge.Config(**options)).score(episode))
    finally:
        served.terminate()
        served.wait(60)
