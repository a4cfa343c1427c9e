"""A policy's results are named on one line: a file, a run, an evaluation of a run, or several of them, its seeds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agent_r1_core import ConfigError, EndStatus, Run
from agent_r1_core.evaluation.arm import Arm
from agent_r1_core.evaluation.compare import compare
from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.report import report
from agent_r1_core.testing.trajectories import make_task, make_trajectory


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


def test_a_result_has_its_own_name_or_a_given_one_and_several_are_seeds(home: Path) -> None:
    assert (Arm.open("a").name, Arm.open("ppo=a").name, Arm.open("ppo=a/eval_1").name) == ("a", "ppo", "ppo")
    assert Arm.open("a").files[0].path == Arm.open("ppo=a/eval_1").files[0].path
    odd = Arm.open("a=b")
    assert (odd.name, odd.mean("exact_match", odd.finished).mean) == ("a=b", 0.0), "a path, not a name"
    seeds = Arm.open("ppo=a,b/eval_1")
    assert ([len(asked) for asked in seeds.asked], len(seeds.finished)) == ([4, 4], 3), "common questions count"
    assert seeds.mean("exact_match", seeds.finished).mean == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert [len(values) for values in seeds.values("f1", seeds.finished)[""]] == [3, 3]


def test_results_of_one_run_are_not_seeds(home: Path) -> None:
    for suffix in ("json", "jsonl"):
        shutil.copy(home / f"a/evaluations/eval_1.{suffix}", home / f"a/evaluations/eval_2.{suffix}")
    about = home / "a/evaluations/eval_2.json"
    about.write_text(about.read_text().replace("eval_1.jsonl", "eval_2.jsonl"))
    told = r"^a/.*/eval_1.json and a/.*/eval_2.json are results of one run, not of two seeds; give one result of a run"
    for named, sentence in (
        ("ppo=a/eval_1,./a/eval_2", told),
        ("ppo=a,./a", r"^ppo=a,\./a names a result twice; "),
    ):
        with pytest.raises(ConfigError, match=sentence):
            Arm.open(named)


def test_copies_of_an_evaluation_are_not_seeds(home: Path) -> None:
    for name in ("a", "b"):
        about = home / name / "evaluations/eval_1.json"
        about.write_text(json.dumps(json.loads(about.read_text()) | {"policy": {"run": f"/runs/{name}"}}))
    assert len(Arm.open("ppo=a,b").files) == 2
    for suffix in ("json", "jsonl"):
        shutil.copy(home / f"a/evaluations/eval_1.{suffix}", home / f"b/evaluations/eval_1.{suffix}")
    with pytest.raises(
        ConfigError, match=r"^a/.* and b/.* are copies of one evaluation, of the run /runs/a; give each"
    ):
        Arm.open("ppo=a,b")


def test_runs_with_the_same_seed_are_not_seeds_unless_they_began_with_different_models(home: Path) -> None:
    def trained(name: str, seed: int, model: str = "tiny", steps: int = 9) -> None:
        (home / name / "config.yaml").write_text(
            f"seed: {seed}\nmodel:\n  name: {model}\ntraining:\n  steps: {steps}\n  lr: 0.1\nrun:\n  name: {name}\n"
        )

    trained("a", 3)
    assert len(Arm.open("ppo=a,b").files) == 2, "that of b is not known"
    trained("b", 4, steps=10)
    assert compare([Arm.open("ppo=a,b")], common=True).notes[-1:] == [
        "ppo: its seeds were trained with different training.steps"
    ]
    trained("b", 3)
    told = r"^a/.*/eval_1.json and b/.*/eval_1.json are results of runs with the same seed, 3; give runs with diff"
    with pytest.raises(ConfigError, match=told):
        Arm.open("ppo=a,b")
    for seed, model in ((4, "tiny"), (3, "runs/warm-1")):
        trained("b", seed, model)
        seeds = Arm.open("ppo=a,b")
        assert (len(seeds.files), seeds.unlike) == (2, [])
    trained("b", 3)
    shutil.move(home / "b/evaluations", home / "copied")
    assert len(Arm.open("ppo=a,copied/eval_1.json").files) == 2, "a copied file does not say its run"
