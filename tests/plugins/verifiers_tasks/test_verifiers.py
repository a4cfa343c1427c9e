"""Task sets of the package verifiers, in a Python of its own: tasks, scores, and what is refused by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from agent_r1_verifiers import asking
from agent_r1_verifiers.reward import VerifiersReward
from agent_r1_verifiers.source import VerifiersTasks
from made_environments import python_with

from agent_r1_core import EpisodeError, TaskError, train
from agent_r1_core.testing import RewardContract, TaskSourceContract, make_trajectory

HERE = Path(__file__).parent
V0 = "def load_environment(**options):\n    return None\n"
WITH_RUNTIME = """
import verifiers.v1 as vf


class RuntimeTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def files(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        return 1.0


class Runtimes(vf.Taskset[RuntimeTask, vf.TasksetConfig]):
    def load(self):
        yield RuntimeTask(vf.TaskData(prompt="Write a file."), self.config.task)


__all__ = ["Runtimes"]
"""


@pytest.fixture(scope="module")
def at(root: Path, environments: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where verifiers is, and the task sets."""
    folder = tmp_path_factory.mktemp("sets")
    (folder / "little_sums.py").write_text((root / "recipes/verifiers/little_sums.py").read_text())
    (folder / "slow_sums.py").write_text((HERE / "slow_sums.py").read_text())
    (folder / "old_sums.py").write_text(V0)
    (folder / "runtimes.py").write_text(WITH_RUNTIME)
    python = python_with(HERE / "requirements.txt", environments / "verifiers", "--no-deps")
    yield {"python": str(python), "path": str(folder)}
    asking.helper(str(python), str(folder)).close()


@pytest.fixture
def _at(request: pytest.FixtureRequest, at: dict[str, str]) -> None:
    request.instance.config = {**request.cls.config, **at}


@pytest.mark.slow
@pytest.mark.usefixtures("_at")
class TestVerifiersTasks(TaskSourceContract):
    component = VerifiersTasks
    config: ClassVar = {"taskset": "little-sums", "size": 20}


@pytest.mark.slow
@pytest.mark.usefixtures("_at")
class TestVerifiersReward(RewardContract):
    component = VerifiersReward
    examples: ClassVar = (make_trajectory(answer=None),)


def tasks(at: dict[str, str], taskset: str, **options: Any) -> list[Any]:
    return list(VerifiersTasks(VerifiersTasks.Config(**at, taskset=taskset, **options)).load())


@pytest.mark.slow
def test_tasks_are_scored_by_their_own_rewards_with_weights(at: dict[str, str]) -> None:
    played = tasks(at, "little-sums", first=3, size=2, options={"most": 4})
    assert [task.prompt[-1]["content"] for task in played] == ["What is 0 + 3?", "What is 0 + 4?"]
    reward = VerifiersReward(VerifiersReward.Config(**at))
    trajectories = [make_trajectory(task=played[0], answer=answer) for answer in ("3", "4", "four", None)]
    assert [reward.score(one) for one in trajectories] == [1.5, 0.5, 0.0, 0.0]
    with ThreadPoolExecutor(64) as threads:
        before = len(os.listdir("/proc/self/fd"))
        scores = list(threads.map(reward.score, trajectories * 250))
    assert scores == [1.5, 0.5, 0.0, 0.0] * 250
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.slow
def test_a_score_that_never_comes_costs_its_own_time_alone(at: dict[str, str]) -> None:
    """Whether it waits or keeps the helper busy: the others are scored, if need be by another helper."""
    (task,) = tasks(at, "slow-sums", first=3, size=1)
    short, long = (VerifiersReward(VerifiersReward.Config(**at, seconds=seconds)) for seconds in (1.0, 60.0))

    def score(answer: str) -> float | str:
        reward = long if answer.isdigit() else short
        try:
            return reward.score(make_trajectory(task=task, answer=answer))
        except EpisodeError as error:
            return str(error)

    with ThreadPoolExecutor(64) as threads:
        given = [*("3" * 20), "wait", "raise", "loop", *("4" * 20)]
        late = f"verifiers cannot score {task.id}: its score took longer than 1 seconds"
        answers = list(threads.map(score, given))
        waited, raised, looped = answers[20:23]
        assert (answers[:20], waited, looped, answers[23:]) == ([1.0] * 20, late, late, [0.0] * 20)
        assert raised.startswith(f"verifiers cannot score {task.id}: ")
        assert raised.endswith("no sum (slow_sums.py, line 22)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("taskset", "sentence"),
    [
        ("old-sums", r"environment of the old API \(v0, load_environment\); port it to vf.Taskset"),
        ("runtimes", r"its reward files needs a runtime, which needs verifiers' own harness"),
        ("nowhere", r"cannot load nowhere: ModuleNotFoundError: taskset 'nowhere' not found"),
    ],
)
def test_what_cannot_be_scored_here_is_refused(at: dict[str, str], taskset: str, sentence: str) -> None:
    with pytest.raises(TaskError, match=sentence):
        tasks(at, taskset)


@pytest.mark.slow
def test_too_few_tasks_and_wrong_options_are_one_sentence(at: dict[str, str]) -> None:
    with pytest.raises(TaskError, match="has 4 tasks of little-sums from first=0 but size=9 was asked for"):
        tasks(at, "little-sums", size=9, options={"most": 1})
    with pytest.raises(TaskError, match=r"cannot load little-sums: it refuses its options: colour: Extra inputs"):
        tasks(at, "little-sums", options={"colour": 1})


@pytest.mark.slow
def test_the_recipe_trains(at: dict[str, str], tmp_path: Path) -> None:
    python = [f"{one}.python={at['python']}" for one in ("tasks.train", "tasks.eval", "rewards.0")]
    few = ["training.steps=2", "training.tasks_per_step=4", "training.samples_per_task=4", "evaluation.every=0"]
    steps = train("verifiers", [*python, *few, f"run.dir={tmp_path}"]).metrics()
    assert [step["rollout/failed"] for step in steps] == [0, 0]
    assert any(step["reward/verifiers"] for step in steps)


def test_a_python_without_verifiers_or_none_at_all_is_one_sentence() -> None:
    here = {"python": sys.executable, "path": None}
    with pytest.raises(TaskError, match=r"has no verifiers; install verifiers>=0\.4 there"):
        tasks(here, "little-sums")
    asking.helper(sys.executable, None).close()
    with pytest.raises(TaskError, match=r"there is no /nowhere/python; run `python -m venv envs/verifiers"):
        tasks({"python": "/nowhere/python", "path": None}, "little-sums")
    config = VerifiersTasks.Config(python="/nowhere/python", taskset="x")
    assert "runs /nowhere/python" in VerifiersTasks.programs(config)["python"]
