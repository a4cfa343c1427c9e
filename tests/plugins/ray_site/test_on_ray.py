"""Runs whose roles are workers of a local Ray: they compute what one process computes, and survive the loss of any."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import small_run
from agent_r1_ray import relay, rollouts
from agent_r1_ray.jobs import Job, Report
from agent_r1_ray.learner import RayLearner
from agent_r1_ray.left_behind import below
from agent_r1_ray.rollout_worker import RayWorker
from agent_r1_ray.rollouts import RayRollouts
from fake_workers import check_complete
from small_run import fingerprint, run_once

from agent_r1_core.errors import ConfigError
from agent_r1_core.evaluation.listener import Silence
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import tiny_model_folder

pytestmark = pytest.mark.slow

ONE_OF_EACH = {"distributed__rollout_workers": 1, "distributed__learner_workers": 1}
TWO_OF_EACH = {"distributed__rollout_workers": 2, "distributed__learner_workers": 2}


class Killer(Silence):
    """Sends a process of the run a signal when a step has been recorded."""

    def __init__(self, actors: Mapping[int, str], number: int = signal.SIGKILL) -> None:
        self.actors = dict(actors)
        self.number = number
        self.notes: list[str] = []
        self.players: list[set[int]] = []
        """The rollout workers after each step that was recorded."""

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self.players.append(set(processes_of("RolloutActor")))
        actor = self.actors.pop(step, None)
        if actor is not None:
            os.kill(processes_of(actor)[0], self.number)

    def note(self, text: str) -> None:
        self.notes.append(text)


def processes_of(actor: str) -> list[int]:
    """The processes of an actor's class that were started by this one."""
    title = f"ray::{actor}".encode()
    return [process for process in sorted(below(os.getpid())) if _command(process).startswith(title)]


def _command(process: int) -> bytes:
    try:
        return Path("/proc", str(process), "cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_model_folder(tmp_path / "model")
    return tmp_path


def test_one_worker_of_each_kind_computes_what_one_process_computes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit: metrics, trajectories, advantages, every file of the policy and of the checkpoints; also where the
    learner is lost, the rollout worker plays a step twice, and a relay calls it."""
    changed, garbage = {"algorithm": "ppo", "training__lr": "1e-3"}, gc.get_threshold()
    alone = fingerprint(run_once(folder, "alone", 2, **changed))
    assert fingerprint(run_once(folder, "on_ray", 2, **changed, **ONE_OF_EACH)) == alone
    killer = Killer({1: "LearnerActor"})
    monkeypatch.setattr(rollouts, "WORKERS", 1)
    assert fingerprint(run_once(folder, "killed", 2, listener=killer, **changed, **ONE_OF_EACH)) == alone
    assert len(killer.players) > 1
    assert len(set.union(*killer.players)) == 1, "the rollout worker was not kept"
    assert gc.get_threshold() == garbage, "Python looks for garbage as before"


def test_a_run_survives_the_loss_of_any_of_its_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollout worker while it loads the weights of step 1, a learner worker while it sends those of step 2, and each
    between steps: every step is there once, with all its episodes; what the learner lost was repeated."""
    monkeypatch.setattr(RayRollouts, "load_weights", losing("RolloutActor", 2, RayRollouts.load_weights))
    monkeypatch.setattr(RayLearner, "snapshot", losing("LearnerActor", 3, RayLearner.snapshot))
    killer = Killer({3: "LearnerActor", 4: "RolloutActor"})
    changed = {"deterministic": "false", "checkpoint": "{every: 1, keep: 1, best: null}", "evaluation__every": 0}
    run = run_once(folder, "killed", 5, listener=killer, **changed, **TWO_OF_EACH)
    assert not killer.actors
    assert killer.players[1] & killer.players[2], "a lost learner cost the run a rollout worker"
    check_complete(run, 5)
    for step in run.trajectory_steps():
        assert {one.policy_version for one in run.read_trajectories(step)} == {step - 1}
    told = "\n".join(killer.notes)
    assert told.count("rollout worker") >= 2
    assert told.count("learner worker") >= 2
    assert "go on after step 1" in told
    resumed = run_once(folder, "killed", 6, resume=True, **changed)
    assert [line["step"] for line in resumed.metrics()] == [1, 2, 3, 4, 5, 6], "in one process it goes on as well"


KINDS = """
import enum
from agent_r1_core import Task, TaskSource, TaskSpec


class Kind(enum.StrEnum):
    EASY = "easy"


class Kinds(TaskSource):
    def load(self):
        return [Task(f"{number}", f"What is {number} + 1?", metadata={"kind": Kind.EASY}) for number in range(7)]


@hookimpl
def register_tasks():
    return [TaskSpec("kinds", ":Kinds", "tasks that hold a value of a class of this file")]
"""


def test_episodes_that_are_lost_before_they_are_fetched_are_played_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed when it has played episodes of a step of which nobody has heard; then the relay hangs that
    calls it. Every episode is there, the same as without losses; its task has a value of a plugin file's class."""
    killed, report, submit = asyncio.Event(), RayWorker.report, RayWorker.submit

    async def held(self: RayWorker, gather: float, most: int) -> Report:
        if not killed.is_set():
            await killed.wait()
        return await report(self, gather, most)

    async def kill(self: RayWorker, jobs: Sequence[Job]) -> None:
        await submit(self, jobs)
        if not killed.is_set():
            while not await self._running.__ray_call__.remote(lambda actor: len(actor._host._finished)):
                await asyncio.sleep(0.1)
            os.kill(processes_of("RolloutActor")[0], signal.SIGKILL)
            killed.set()

    plugin = folder / "kinds.py"
    plugin.write_text(small_run.REWARD + KINDS)
    monkeypatch.setattr(small_run, "PLUGIN", plugin)
    changed = {"evaluation__at_start": "false", "evaluation__every": 0, "checkpoint": "{every: 1, keep: 1, best: null}"}
    changed |= {"tasks__train": "{name: kinds}"}
    expected = run_once(folder, "alone", 2, **changed)
    monkeypatch.setattr(RayWorker, "report", held)
    monkeypatch.setattr(RayWorker, "submit", kill)
    monkeypatch.setattr(rollouts, "WORKERS", 1)
    killer = Killer({1: "RelayActor"}, signal.SIGSTOP)
    monkeypatch.setattr(relay, "SILENCE", 15.0)  # a relay that lives answers every 5 seconds
    run = run_once(folder, "killed", 2, listener=killer, **changed, **ONE_OF_EACH)
    check_complete(run, 2)
    assert played(run, 1) == played(expected, 1)
    assert sum("is lost" in note for note in killer.notes) == 2


def played(run: Run, step: int) -> list[tuple[str, float, list[list[int]]]]:
    """The episodes of a step."""
    return [
        (one.id, one.total_reward, [segment.ids for segment in one.segments]) for one in run.read_trajectories(step)
    ]


def losing(actor: str, number: int, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, but in its call of this number a worker hangs, and is killed when all have been asked."""
    calls = itertools.count(1)

    async def called(self: Any, *arguments: Any) -> Any:
        if next(calls) != number:
            return await method(self, *arguments)
        process = processes_of(actor)[0]
        os.kill(process, signal.SIGSTOP)
        call = asyncio.ensure_future(method(self, *arguments))
        for _ in range(10):
            await asyncio.sleep(0)
        os.kill(process, signal.SIGKILL)
        return await call

    return called


def test_a_cluster_that_is_not_there_or_too_small_is_told_before_anything_is_written(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"no Ray cluster at 127.0.0.1:1, .*, or set distributed.address=null"):
        run_once(folder, "nowhere", 1, **ONE_OF_EACH, distributed__address="127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"need 2 GPUs .* but the cluster has 0"):
        run_once(
            folder, "small", 1, **ONE_OF_EACH, distributed__gpus_per_rollout_worker=1, deterministic="false",
            distributed__gpus_per_learner_worker=1,
        )  # fmt: skip
    with pytest.raises(ConfigError, match=r"cpu_offload moves .* but the learner workers of this run have no GPUs"):
        run_once(folder, "off", 1, **ONE_OF_EACH, training__cpu_offload="true", deterministic="false")
    assert not (folder / "runs").exists()
