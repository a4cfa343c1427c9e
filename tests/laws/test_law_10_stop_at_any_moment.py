"""LAW 10: stop at any moment, lose nothing."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from contexts import every_context
from dying_writers import written
from safetensors.torch import load_file
from small_run import Notes, Terminated, fingerprint, rewritten, run_once

from agent_r1_core.assembly.checkpointing import save_checkpoint
from agent_r1_core.assembly.local_roles import LocalRollouts
from agent_r1_core.contracts.engine import EngineModel
from agent_r1_core.engines.weights import load_module
from agent_r1_core.errors import EngineError, RunError
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.state import write_state
from agent_r1_core.runs.checkpoint import Checkpoint
from agent_r1_core.runs.checkpoints import Checkpoints
from agent_r1_core.runs.run import Run

KILLS = 20
STEPS = 8
SHARD = "shard-00001-of-00001.safetensors"
BUNDLED = {"model__name": "tiny", "checkpoint": "{every: 1, keep: 1, best: null}", "training__importance_clip": 1.5}
"""The bundled model's file has another layout than those of checkpoints, and the clip makes the last bits count."""


def in_parts(folder: Path, name: str, *stops: int, **options: Any) -> tuple[Run, Run]:
    """A run that is resumed after each of the stops but the last, and one that goes through."""
    for number, stop in enumerate(stops):
        parts = run_once(folder, f"{name}-parts", stop, resume=number > 0, **options)
    return parts, run_once(folder, f"{name}-whole", stops[-1], **options)


@pytest.mark.parametrize(
    "algorithm", ["grpo", "ppo", *(pytest.param(name, marks=pytest.mark.slow) for name in ("remax", "rft"))]
)
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(folder: Path, algorithm: str) -> None:
    """Every file of the policies too, although the checkpoint that it was resumed from is gone at the end; and the
    weight of an entropy bonus that rises from step to step."""
    target = {"algorithm__entropy_target": 9.0} if algorithm == "grpo" else {}
    options = BUNDLED | {"algorithm": algorithm, "evaluation__at_end": "false"} | target
    parts, whole = in_parts(folder, algorithm, 2, 3, **options)
    assert [one.get("update/entropy_coef") for one in whole.metrics()] == ([0.0, 0.005, 0.01] if target else [None] * 3)
    assert [one.step for one in parts.checkpoints.all()] == [3]
    assert {path.name for path in parts.model.iterdir()} >= {"tokenizer.json", "chat_template.jinja", "README.md"}
    assert fingerprint(parts) == fingerprint(whole)


def test_adapters_are_resumed_bit_for_bit_and_merged_into_the_policy(folder: Path) -> None:
    parts, whole = in_parts(folder, "adapters", 1, 2, model__lora__rank=4, evaluation__at_end="false")
    assert fingerprint(parts) == fingerprint(whole)
    first, last = (load_file(each / "model.safetensors") for each in (folder / "model", whole.model))
    assert first.keys() == last.keys()
    assert not all(torch.equal(first[name], last[name]) for name in first)


@every_context
def test_a_run_with_a_rewritten_context_is_resumed_bit_for_bit(folder: Path, context: str) -> None:
    parts, whole = in_parts(folder, context, 1, 2, **rewritten(context))
    assert fingerprint(parts) == fingerprint(whole)


def test_a_mixture_of_training_sets_goes_on_at_its_place_in_the_tasks(folder: Path) -> None:
    """How many tasks a step plays depends on what they returned; one set is in a later epoch than the other."""
    sets = "{few: {name: arithmetic, terms: 3, size: 3}, more: {name: arithmetic, size: 9, weight: 2}}"
    options = {"tasks__train": sets, "algorithm": "dapo", "rewards": "[early]", "checkpoint": "{every: 1, best: null}"}
    parts, whole = in_parts(folder, "mixed", 2, 6, **options)
    assert fingerprint(parts) == fingerprint(whole)
    played = [one.task for step in range(1, 7) for one in whole.read_trajectories(step)[::3]]
    few, more = ([task.id for task in played if task.metadata["source"] == name] for name in ("few", "more"))
    assert abs(len(few) - len(played) / 3) < 1
    assert len(set(few[:3])) == 3
    assert len(set(more[:9])) == len(more[:9])
    assert {"train/few/return", "train/more/return"} <= whole.metrics()[0].keys()


def test_a_curriculum_goes_on_with_what_it_has_learnt(folder: Path) -> None:
    """The gate and the shares of two sets, also where a step plays further tasks."""
    sets = "{few: {name: arithmetic, terms: 3, size: 3}, more: {name: arithmetic, size: 9, weight: 2}}"
    options = {"tasks__train": sets, "training__curriculum": "{rate: 0.5}", "algorithm": "dapo", "rewards": "[early]"}
    parts, whole = in_parts(folder, "curriculum", 2, 6, **options, checkpoint="{every: 1, best: null}")
    assert fingerprint(parts) == fingerprint(whole)
    last = whole.metrics()[-1]
    assert last["curriculum/few/spread"] != last["curriculum/more/spread"]
    assert sum(line["curriculum/passed"] for line in whole.metrics())


def test_no_weight_lies_where_its_file_put_it(folder: Path) -> None:
    """A view into the file's buffer is aligned as the file is, and CPU kernels round differently by alignment."""
    served = load_module(EngineModel(str(folder / "model"), "float32"))
    for tensor in (*Policy.load(folder / "model").module.parameters(), *served.parameters()):
        assert tensor.untyped_storage().nbytes() == tensor.nbytes
        assert tensor.data_ptr() % 64 == 0


def test_an_interruption_between_two_checkpoints_leaves_no_trace(folder: Path) -> None:
    """Though the step that it saves was evaluated."""
    options = {"checkpoint": "{every: 3, keep: 2, best: eval/reward/vowels}", "evaluation__every": 1}
    with pytest.raises(KeyboardInterrupt):
        run_once(folder, "stopped", 6, listener=Terminated(), **options)
    (saved,) = Run.open(folder / "runs" / "stopped").checkpoints.all()
    assert (saved.step, saved.interim, saved.value) == (2, True, None)
    parts, whole = run_once(folder, "stopped", 6, resume=True, **options), run_once(folder, "passed", 6, **options)
    assert [one.step for one in parts.checkpoints.all()] == [3, 6]
    assert fingerprint(parts) == fingerprint(whole)


def test_a_run_whose_checkpoints_are_gone_is_not_begun_anew(folder: Path) -> None:
    """It would lose its metrics, its episodes and its final policy."""
    run = run_once(folder, "bare", 3)
    before = fingerprint(run)
    for name in ("checkpoints", "trajectories"):
        shutil.move(run.path / name, folder / name)
    with pytest.raises(RunError, match="has recorded 3 steps, but all its checkpoints are gone; restore one from"):
        run_once(folder, "bare", 4, resume=True)
    for name in ("checkpoints", "trajectories"):
        shutil.rmtree(run.path / name, ignore_errors=True)
        shutil.move(folder / name, run.path / name)
    assert fingerprint(run) == before
    shutil.rmtree(run.path / "trajectories")
    shutil.rmtree(run.path / "evaluations")
    assert len(run_once(folder, "bare", 4, resume=True).metrics()) == 4, "what it lacks it goes on without"
    (run.path / "plugins.json").unlink()
    with pytest.raises(RunError, match=r"the plugins.json of run .*bare is missing; restore it"):
        run_once(folder, "bare", 5, resume=True)


def test_steps_after_the_last_checkpoint_are_done_again_and_replaced(folder: Path) -> None:
    options = {"checkpoint": "{every: 2, keep: 1, best: null}"}
    whole = run_once(folder, "redo-whole", 3, **options)
    run = run_once(folder, "redo", 3, **options)
    with Run.resume(run.path) as opened:  # as a kill leaves it that comes while its first checkpoint is written
        opened.checkpoints.discard_after(1)
        assert opened.checkpoints.latest() is None, "only the newest checkpoint is kept here"
    shutil.rmtree(run.model)
    again = run_once(folder, "redo", 3, resume=True, **options)
    assert fingerprint(again) == fingerprint(whole)
    assert [line["step"] for line in again.metrics()] == [1, 2, 3]


def contents(checkpoint: Checkpoint) -> list[str]:
    return [path.read_text() for path in (checkpoint.policy / "weights", checkpoint.trainer / "shard")]


def tried(folder: Path, work: str) -> list[Path]:
    """A folder for each touch of the disk before which a writer died at its work, and one in which none died."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    program = Path(__file__).with_name("dying_writers.py")
    subprocess.run([sys.executable, program, folder, work], env=environment, check=True)
    folders = [folder / str(moment) for moment in range(1, 1 + len(os.listdir(folder)))]
    assert len(folders) > 10
    return folders


@pytest.mark.parametrize("step", ["again", "next"])
def test_a_checkpoint_is_whole_or_absent_wherever_its_writer_dies(tmp_path: Path, step: str) -> None:
    """Every touch of the disk is tried: of a step that has a checkpoint already, and of a new one."""
    for folder in tried(tmp_path, step):
        checkpoints = Checkpoints(folder)
        checkpoints.clean()
        latest = checkpoints.latest()
        assert contents(latest) in (["old 2"] * 2, ["new"] * 2)
        assert all(len(set(contents(one))) == 1 for one in checkpoints.all())
        assert [path.name for path in checkpoints.folder.iterdir() if path.name.startswith(".")] == []
    assert contents(latest) == ["new"] * 2


def test_a_run_that_is_replaced_by_force_is_there_wherever_its_successor_dies(tmp_path: Path) -> None:
    """Every touch of the disk is tried: until the new run has recorded a step, the old one is found again."""
    for home in tried(tmp_path, "by force"):
        Run.bring_back(home / "run")  # as a resume does, and whoever writes there
        found = Run.open(home / "run")
        if found.config() == {"seed": "new"} and not found.metrics():
            shutil.rmtree(found.path)  # what the message about a run without a policy says
            Run.bring_back(home / "run")
            found = Run.open(home / "run")
        steps = [line["step"] for line in found.metrics()]
        assert (found.config()["seed"], steps) in [("old", [7]), ("new", [1])]
    assert steps == [1]
    assert [path.name for path in home.iterdir()] == ["run"]


def test_what_is_half_there_is_no_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3):
        checkpoints.save(step, written("some words"), keep=3)
    (checkpoints.at(2).policy / "weights").unlink()
    (checkpoints.at(3).trainer / "shard").write_text("some")
    assert [one.step for one in checkpoints.all()] == [1]


class Overtaken(Notes):
    """Holds the files of each step's checkpoint back until the next step is recorded."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.recorded = [threading.Event() for _ in range(steps)]
        self.written = 0

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self.recorded[step - 1].set()

    def write(self, *args: Any) -> None:
        self.written += 1
        assert self.recorded[min(self.written, len(self.recorded) - 1)].wait(60)
        write_state(*args)


def test_a_checkpoint_that_training_has_overtaken_holds_its_own_step(folder, monkeypatch):
    options = BUNDLED | {"algorithm": "ppo", "checkpoint": "{every: 1, keep: 9, best: null}"}
    whole = run_once(folder, "prompt", 2, **options)
    overtaken = Overtaken(2)
    monkeypatch.setattr("agent_r1_core.learning.learner.write_state", overtaken.write)
    late = run_once(folder, "overtaken", 2, listener=overtaken, **options)
    assert overtaken.written == 2
    assert fingerprint(late) == fingerprint(whole)


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of episodes are written when somebody waits for them, as another process may write them at any time."""
    write, held = LocalRollouts.write, list[Any]()

    async def later(self: LocalRollouts, *given: Any) -> None:
        held.append(given)

    async def written(self: LocalRollouts) -> None:
        while held:
            await write(self, *held.pop(0))

    monkeypatch.setattr(LocalRollouts, "write", later)
    monkeypatch.setattr(LocalRollouts, "written", written)


@pytest.mark.usefixtures("held_back")
def test_an_evaluation_that_is_there_has_the_episodes_that_it_names(folder, monkeypatch):
    write, there = Run.write_evaluation, list[bool]()

    def counted(self: Run, name: str, *given: Any) -> Path:
        there.append(self.evaluation_trajectories_file(name).exists())
        return write(self, name, *given)

    monkeypatch.setattr(Run, "write_evaluation", counted)
    run = run_once(folder, "evaluated", 2)
    assert there == [True] * len(run.evaluations()) == [True, True]
    assert len(run.read_evaluation_trajectories("step_000002")) == 2


@pytest.mark.usefixtures("held_back")
def test_a_checkpoint_waits_for_the_episodes_of_all_its_steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resume keeps no step whose episodes are not there."""
    there = dict[int, list[int]]()

    async def save(learner: Any, order: Any, run: Run, step: int, *rest: Any) -> None:
        there[step] = run.trajectory_steps()
        await save_checkpoint(learner, order, run, step, *rest)

    monkeypatch.setattr("agent_r1_core.training.trainer.save_checkpoint", save)
    # Where an evaluation kept episodes, it would have waited.
    options = {"checkpoint": "{every: 2, keep: 1, best: null}", "recording__evaluation_episodes": 0}
    run_once(folder, "episodes", 3, **options)
    assert there == {2: [1, 2], 3: [1, 2, 3]}


def test_a_run_is_nobody_elses_while_its_checkpoint_is_being_written(tmp_path: Path) -> None:
    """Two writers would mix their files: the lock goes when the checkpoint is on the disk."""
    run, begun, go_on = Run.create(tmp_path, "run", {}, []), threading.Event(), threading.Event()

    def write(folder: Path) -> None:
        written("slow")(folder)
        begun.set()
        assert go_on.wait(60)

    run.checkpoint_writer.start(1, write)
    assert begun.wait(60)
    assert run.checkpoints.all() == []
    closing = threading.Thread(target=run.close)
    closing.start()
    closing.join(0.3)  # it does not end
    with pytest.raises(RunError, match="already open for writing"):
        Run.resume(run.path)
    go_on.set()
    closing.join()
    with Run.resume(run.path) as again:
        assert contents(again.checkpoints.at(1)) == ["slow", "slow"]


def flip_a_byte(file: Path) -> None:
    """Change the byte in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_flipped_bytes_in_a_checkpoint_are_seen_and_the_one_before_it_serves(folder, monkeypatch):
    options = {"checkpoint": "{every: 1, keep: 3, best: null}"}
    whole = run_once(folder, "unhurt", 3, **options)
    hurt = run_once(folder, "hurt", 3, **options)
    flip_a_byte(hurt.checkpoints.at(3).trainer / SHARD)
    flip_a_byte(hurt.checkpoints.at(2).policy / "model.safetensors")

    def fail(*_: object, **__: object) -> None:
        raise EngineError("no memory is left")

    with monkeypatch.context() as patch:
        patch.setattr("agent_r1_core.assembly.assembly.assemble", fail)
        with pytest.raises(EngineError):
            run_once(folder, "hurt", 3, resume=True, **options)
    assert (len(hurt.metrics()), hurt.trajectory_steps()) == (3, [1, 2, 3]), "nothing goes before it can be repeated"
    assert hurt.checkpoints.at(3).trainer.is_dir()
    told = Notes()
    resumed = run_once(folder, "hurt", 3, resume=True, listener=told, **options)
    assert told.said[0].endswith(
        f"(step_000003: trainer/{SHARD} has other bytes than were written; step_000002: policy/model.safetensors has "
        "other bytes than were written): the run goes on from step_000001"
    )
    assert fingerprint(resumed) == fingerprint(whole)
    for checkpoint in resumed.checkpoints.all():
        flip_a_byte(checkpoint.trainer / SHARD)
    with pytest.raises(RunError, match=r"no checkpoint of .*hurt is whole .*; restore one from a copy"):
        run_once(folder, "hurt", 4, resume=True, **options)


def test_a_checkpoint_that_somebody_reads_is_not_pruned(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    reader = checkpoints.save(1, written("one"), keep=1).lock()
    checkpoints.save(2, written("two"), keep=1)
    assert contents(checkpoints.at(1)) == ["one", "one"]
    reader.release()
    checkpoints.save(3, written("three"), keep=1)
    assert [one.step for one in checkpoints.all()] == [3]


@pytest.mark.slow
def test_kill_minus_nine_at_twenty_random_moments_loses_nothing(folder: Path) -> None:
    """Every third kill hits the beginning of a resume."""
    context = multiprocessing.get_context("forkserver")
    slow_to_import = ("agent_r1_core.training.trainer", "agent_r1_transformers.engine", "transformers.generation.utils")
    context.set_forkserver_preload(["small_run", *slow_to_import])
    warm = context.Process(target=int)
    warm.start()
    warm.join()
    begun = time.perf_counter()
    unharmed = context.Process(target=run_once, args=(folder, "unharmed", STEPS), kwargs=BUNDLED)
    unharmed.start()
    unharmed.join()
    seconds = time.perf_counter() - begun
    rng = random.Random(10)
    names, kills, resumptions = ["killed"], 0, 0
    while kills < KILLS:
        name = names[-1]
        resume = (folder / "runs" / name / "config.yaml").is_file()
        resumptions += resume
        child = context.Process(target=run_once, args=(folder, name, STEPS, resume, not resume), kwargs=BUNDLED)
        child.start()
        child.join(seconds * (rng.uniform(0.02, 0.1) if kills % 3 == 2 else rng.uniform(0.1, 0.5)))
        if child.is_alive():
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join()
            kills += 1
            if not (folder / "runs" / name / "config.yaml").is_file():
                seconds *= 1.2  # the machine has become slower: this kill came before the run's start
        else:
            assert child.exitcode == 0
            names.append(f"killed-{len(names)}")  # the machine has become faster: this run is done before the last kill
            seconds /= 2
    assert resumptions > 0, "no kill came after the run's start, so that nothing was tried"
    whole = fingerprint(Run.open(folder / "runs" / "unharmed"))
    for name in names:
        resume = (folder / "runs" / name / "config.yaml").is_file()
        finished = run_once(folder, name, STEPS, resume, not resume, **BUNDLED)
        assert fingerprint(finished) == whole
        assert [path for path in finished.path.rglob("*") if ".tmp" in path.name] == []
