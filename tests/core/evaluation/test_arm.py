"""A policy's results are named on one line: a file, a run, an evaluation of a run, or several of them, its seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.errors import ConfigError, RunError
from agent_r1_core.evaluation.arm import Arm
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.report import report
from agent_r1_core.runs.run import Run
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import EndStatus


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs `a`, `b` and `a=b` that answer one, two and no question rightly; a fourth question failed in `b`."""
    monkeypatch.chdir(tmp_path)
    for name, right in (("a", 1), ("b", 2), ("a=b", 0)):
        tasks = [make_task(f"q{index}", "Where?", ("Rome",)) for index in range(4)]
        made = [make_trajectory(task=task, answer="Rome" if i < right else None) for i, task in enumerate(tasks)]
        if name == "b":
            made[3].status = EndStatus.FAILED
        episodes = [EpisodeRecord.of(one) for one in made]
        with Run.create(tmp_path, name.replace("=", "_"), {}, []) as run:
            result = report(episodes, sampling={})
            run.write_evaluation("eval_1", result.to_json(), episodes=[one.to_json() for one in episodes])
    (tmp_path / "a_b").rename(tmp_path / "a=b")
    return tmp_path


def test_a_result_has_its_own_name_or_a_given_one(home: Path) -> None:
    assert (Arm.open("a").name, Arm.open("ppo=a").name, Arm.open("ppo=a/eval_1").name) == ("a", "ppo", "ppo")
    assert Arm.open("a").files[0].path == Arm.open("ppo=a/eval_1").files[0].path
    odd = Arm.open("a=b")
    assert (odd.name, odd.mean("exact_match", odd.finished).mean) == ("a=b", 0.0), "a path, not a name"


def test_several_results_are_seeds_and_their_common_questions_count(home: Path) -> None:
    seeds = Arm.open("ppo=a,b/eval_1")
    assert (len(seeds.files), len(seeds.asked), len(seeds.finished)) == (2, 4, 3)
    assert seeds.mean("exact_match", seeds.finished).mean == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert [len(values) for values in seeds.values("f1", seeds.finished)[""]] == [3, 3]


def test_a_result_that_is_named_twice_or_is_not_there_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"^ppo=a,\./a names a result twice; give each seed its own$"):
        Arm.open("ppo=a,./a")
    with pytest.raises(RunError, match="neither a result file nor a run"):
        Arm.open("ppo=a,c")
