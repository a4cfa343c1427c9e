"""A run goes on under the configuration that it was begun with, and says what it has lost."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from dying_writers import written

from agent_r1_core.config import load_config
from agent_r1_core.errors import RunError
from agent_r1_core.runs.checkpoint import Checkpoint
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_trajectory
from agent_r1_core.training.resume import (
    check_plugin_files,
    check_resumable,
    choose_checkpoint,
    hardware_choices,
    recorded_plugins,
    tell_irregularities,
    tell_other_choice,
)


def test_what_a_resume_may_change(tmp_path: Path) -> None:
    """What is recorded, and where a service is; an option that the run's record lacks counts only where it is set."""

    def tool(url: str, top_k: int) -> str:
        return f"tools=[{{name: wiki_search, backend: remote, url: '{url}', top_k: {top_k}}}]"

    resolved = load_config("default", [tool("http://one:1", 3)])
    older, one, two = resolved.dump(), tool("http://one:1", 3), tool("http://two:2", 3)
    del older["training"]["adam_eps"], older["algorithm"]["entropy_coef"], older["recording"]
    for name, record in (("newer", resolved.dump()), ("older", older)):
        with Run.create(tmp_path, name, record, resolved.registry.to_json()) as run:
            for keys in ([one], [two], [one, "recording.learner=false"]):
                check_resumable(run, load_config("default", keys), force=False)
            for keys, changed in (
                ([one, "training.adam_eps=1e-6"], r"training\.adam_eps"),
                ([one, "training.lr=1e-6"], r"training\.lr"),
                ([tool("http://two:2", 4)], "tools"),
            ):
                with pytest.raises(RunError, match=rf"other values of {changed};"):
                    check_resumable(run, load_config("default", keys), force=False)
            run.checkpoints.save(3, lambda folder: None)
            check_resumable(run, load_config("default", [one, "training.steps=3"]), force=False)
            with pytest.raises(
                RunError, match=r"has done 3 steps, and training\.steps=2 asks for fewer; give at least 3"
            ):
                check_resumable(run, load_config("default", [one, "training.steps=2"]), force=False)


@pytest.mark.parametrize(
    ("metric", "basis", "said"),
    [
        ("eval/f1", "x", ""),
        (None, "", "checkpoint.best is null now: no checkpoint is kept as the best"),
        (
            "eval/success",
            "x",
            "checkpoint.best is eval/success now, and was eval/f1: the best checkpoint is chosen among",
        ),
        ("eval/f1", "y", "evaluations ask other tasks than before, or decode otherwise: the best checkpoint is chosen"),
    ],
)
def test_another_choice_of_the_best_checkpoint_is_told(tmp_path: Path, metric: str, basis: str, said: str) -> None:
    told: list[str] = []
    tell_other_choice(Checkpoint(tmp_path, 2, "eval/f1", 0.5, 1, "x"), metric, basis, told.append)
    assert "".join(told).startswith(said)
    assert len(told) == bool(said)


PLUGIN = {"name": "p", "distribution": None, "version": None, "value": "p.py", "status": "ok", "file_hash": None}


def test_a_damaged_record_of_hardware_or_plugins_is_named_and_no_pipe_is_read(tmp_path: Path) -> None:
    for key in ("threads", "model.dtype", "model.device"):
        lacking: dict[str, Any] = {"threads": 1, "model": {"dtype": "float32", "device": "cpu"}}
        section, _, option = key.rpartition(".")
        del (lacking[section] if section else lacking)[option]
        with Run.create(tmp_path, None, lacking, []) as run, pytest.raises(RunError, match=f"names no {key}; restore"):
            hardware_choices(run)
    record = {**PLUGIN, "components": [{"kind": "tool", "name": "x"}]}
    with Run.create(tmp_path, "run", {}, [record]) as run:
        assert recorded_plugins(run.path) == [record]
    for wrong in ({"components": [{"kind": "tool", "name": 3}]}, {"components": {}}, {"version": 1}):
        (run.path / "plugins.json").write_text(json.dumps([record | wrong]))
        with pytest.raises(RunError, match=r"plugins\.json is damaged"):
            recorded_plugins(run.path)
    os.mkfifo(tmp_path / "pipe.py")
    check_plugin_files([{**PLUGIN, "value": str(tmp_path / "pipe.py"), "file_hash": "0"}])


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of six steps, with checkpoints after the second, fourth and sixth."""
    with Run.create(tmp_path, "run", {}, []) as made:
        for step in range(1, 7):
            write_trajectories(made.trajectory_file(step), step, [make_trajectory(reward=float(step))])
            made.append_metrics(step, {"reward/mean": step})
            if step % 2 == 0:
                made.checkpoints.save(step, written("some"), keep=9)
    return made


def rewrite_metrics(run: Run, steps: Sequence[int]) -> None:
    """Leave the lines of these steps, in this order."""
    file = run.path / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[step - 1] for step in steps))


def chosen(run: Run) -> tuple[int, list[str]]:
    """Where the run goes on, and what it says."""
    said: list[str] = []
    checkpoint = choose_checkpoint(run, 2, said.append)
    tell_irregularities(run, checkpoint.step, said.append)
    return checkpoint.step, said


def test_a_whole_run_goes_on_from_its_newest_checkpoint_without_a_word_and_metrics_that_end_early_are_repeated(
    run: Run,
) -> None:
    """From the checkpoint before; what only an old one could repeat is told instead."""
    assert chosen(run) == (6, [])
    later = run.path / "trajectories" / "step_000007.parquet"
    later.touch()  # a kill between the file and its line
    assert chosen(run) == (6, [])
    later.unlink()
    rewrite_metrics(run, [1, 2, 3, 4, 5])
    told = "metrics.jsonl ends with step 5, before step_000006: the run goes on from step_000004 and repeats what"
    assert chosen(run) == (4, [f"{told} has no record"])
    assert run.checkpoints.at(4).path.rename(run.path / "elsewhere").is_dir()
    lost = "metrics.jsonl has no line of step 6, and nothing can bring it back: the run goes on without"
    assert chosen(run) == (6, [lost])


def test_lines_and_files_that_are_doubled_missing_or_surplus_are_named(run: Run) -> None:
    rewrite_metrics(run, [1, 1, 4, 5, 6])
    files = {step: run.path / "trajectories" / f"step_{step:06d}.parquet" for step in range(10)}
    for lost, surplus in ((2, 8), (3, 9), (5, 9)):
        files[lost].unlink()
        files[surplus].touch()
    step, said = chosen(run)
    assert step == 6
    assert said == [
        "metrics.jsonl has several lines of step 1: the last one of each counts",
        "metrics.jsonl has no line of step 2 to 3, and nothing can bring it back: the run goes on without",
        "trajectories/ has no file of step 2 to 3, 5, and nothing can bring it back: the run goes on without",
        "trajectories/ has files of step 8 to 9 without lines in metrics.jsonl: they are deleted",
    ]


@pytest.mark.parametrize("file", ["state.json", "policy/weights"])
def test_a_checkpoint_that_cannot_be_read_may_be_whole_and_is_not_passed_over(
    run: Run, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    bad, opened = run.checkpoints.at(6).path / file, os.open

    def failing(path: Any, *arguments: Any, **options: Any) -> Any:
        if Path(path) == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(RunError, match=rf"{file} cannot be read \(Input/output error\), though it may be whole"):
        chosen(run)
    assert bad.is_file()
