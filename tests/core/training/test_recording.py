"""What a run keeps for people to read, and what it leaves out where it is told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from small_run import Notes, overrides

from agent_r1_core import EndStatus, Run, train
from agent_r1_core.errors import RunError
from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.evaluation.listener import Silence
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.plugins.trust import Trust
from agent_r1_core.training.api import evaluate, resolve

REWARD = '''
"""Pays for vowels, and breaks on the second sample of a task."""
from agent_r1_core import EpisodeError, RewardFn, RewardSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


class Vowels(RewardFn):
    """Share of vowels."""

    def score(self, trajectory):
        if trajectory.sample == 1:
            raise EpisodeError("the scorer is gone")
        text = "".join(turn.text for turn in trajectory.turns).lower()
        return sum(letter in "aeiou" for letter in text) / max(1, len(text))


@hookimpl
def register_rewards():
    return [RewardSpec("vowels", ":Vowels", "share of vowels")]
'''
SETS = "{sums: {name: arithmetic, split: eval, size: 4}, more: {name: arithmetic, terms: 3, split: eval, size: 2}}"


@pytest.fixture(scope="module")
def home(folder: Path) -> Path:
    (folder / "vowels.py").write_text(REWARD)
    return folder


def keys(home: Path, name: str, **changed: object) -> list[str]:
    own = {
        "tasks__eval": SETS,
        "algorithm": "ppo",
        **{"training__max_retries": 0, "training__epochs": 1, "training__minibatches": 1},
        **{"evaluation__every": 1, "evaluation__at_start": "false"},
        "checkpoint": "{every: 1, keep: 9, best: null}",
        "recording__evaluation_episodes": 3,
        "run__name": name,
    }
    return overrides(home, 2, **own | changed)


def trained(home: Path, name: str, resume: bool = False, **changed: object) -> Run:
    given = keys(home, name, **changed)
    return train("default", given, plugins=[home / "vowels.py"], resume=resume, listener=Silence())


@pytest.fixture(scope="module")
def run(home: Path) -> Run:
    return trained(home, "run")


def test_groups_come_first_and_dropped_episodes_last(run: Run) -> None:
    for line in run.metrics():
        played, numbers = run.read_trajectories(line["step"], dropped=True), run.read_token_numbers(line["step"])
        assert run.read_trajectories(line["step"]) == played[:4]
        assert len(numbers) == 4
        assert [one.sample for one in played] == [0, 2, 0, 2, 1, 1]
        assert [one.status is EndStatus.FAILED for one in played] == [False] * 4 + [True] * 2
        assert [one.task.id for one in played[:4:2]] == [one.task.id for one in played[4:]]
        assert line["rollout/episodes"] == 4
        assert line["reward/mean"] == pytest.approx(sum(one.total_reward for one in played[:4]) / 4)
        assert all(None not in known.values() for known in numbers)
        for known in run.read_token_numbers(line["step"], dropped=True)[4:]:
            assert set(known.values()) == {None}
        assert "the scorer is gone" in played[4].reason


def test_an_evaluation_keeps_the_first_episodes_of_each_set(run: Run) -> None:
    assert list(run.evaluations()) == ["step_000001", "step_000002"]
    for step, (name, result) in enumerate(run.evaluations().items(), 1):
        assert result["trajectories"] == {"sums": f"{name}.sums.parquet", "more": f"{name}.more.parquet"}
        for set_name, kept in (("sums", 3), ("more", 2)):
            played = run.read_evaluation_trajectories(name, set_name)
            assert len(played) == kept
            records = ResultFile.open(run.path / "evaluations" / f"{name}.json").sets()[set_name]
            assert [one.total_reward for one in played] == [one.total for one in records[:kept]]
            file = run.evaluation_trajectories_file(name, set_name)
            assert pq.read_table(file)["step"].to_pylist() == [step] * kept
    with pytest.raises(RunError, match="token by token of a set 'odd'; name one of its sets: sums, more"):
        run.read_evaluation_trajectories("step_000001", "odd")
    with pytest.raises(RunError, match="token by token; name one of its sets: sums, more"):
        run.read_evaluation_trajectories("step_000001")


@pytest.mark.slow
def test_a_resume_removes_the_episodes_of_later_evaluations_and_may_record_otherwise(home: Path) -> None:
    """What is computed stays the same, whatever is recorded."""
    quiet = {"recording__learner": "false", "recording__dropped": "false", "recording__evaluation_episodes": 0}
    whole = trained(home, "quiet", **quiet)
    assert len(whole.read_trajectories(1, dropped=True)) == 4
    for known in whole.read_token_numbers(1):
        assert known["advantages"] is not None
        assert known["learner_logprobs"] is known["values"] is None
    assert not list(whole.path.glob("evaluations/*.parquet"))
    assert all("trajectories" not in result for result in whole.evaluations().values())

    other = trained(home, "other")
    assert (other.model / "model.safetensors").read_bytes() == (whole.model / "model.safetensors").read_bytes()
    with Run.resume(other.path) as opened:
        opened.truncate_after(1)
    assert not list(other.path.glob("evaluations/step_000002*"))
    assert len(list(other.path.glob("evaluations/step_000001*.parquet"))) == 2
    again = trained(home, "other", resume=True, **quiet)
    assert (again.model / "model.safetensors").read_bytes() == (whole.model / "model.safetensors").read_bytes()
    assert len(again.read_trajectories(2, dropped=True)) == 4
    assert "trajectories" not in again.evaluations()["step_000002"]


@pytest.mark.parametrize("where", ["run", "new"])
def test_an_evaluation_of_its_own_keeps_them_likewise(home: Path, run: Run, where: str) -> None:
    model = run.path if where == "run" else home / "model"
    tasks = "{name: arithmetic, split: eval, size: 4}"
    given = keys(home, f"eval-{where}", tasks__eval=tasks, model__name=model)
    given = [key for key in given if not key.startswith(("algorithm=", "training.", "checkpoint=", "evaluation"))]
    own: dict[str, Any] = {"trust": Trust(named=True)} if where == "run" else {"plugins": [home / "vowels.py"]}
    plan = EvaluationPlan(resolve(run.path if where == "run" else "default", given, training=False, **own))
    listener = Notes()
    _, path = evaluate(plan, listener)
    assert listener.heard == [(done, 4, "evaluation") for done in (1, 2, 3, 4)]
    made = Run.open(path.parent.parent)
    assert (made.path == run.path) == (where == "run")
    assert made.evaluations()["eval_1"]["trajectories"] == {"": "eval_1.parquet"}
    assert len(made.read_evaluation_trajectories("eval_1")) == 3
    assert pq.read_table(made.path / "evaluations" / "eval_1.parquet")["step"].to_pylist() == [None] * 3
    assert made.state().kind == "finished"
    assert where == "run" or made.trajectory_steps() == []
