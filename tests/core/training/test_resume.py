"""A run goes on under the configuration that it was begun with, and says what it has lost."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core.config import load_config
from agent_r1_core.errors import RunError
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_trajectory
from agent_r1_core.training.api import resolve
from agent_r1_core.training.resume import (
    check_plugin_files,
    check_resumable,
    choose_checkpoint,
    hardware_choices,
    recorded_plugins,
    tell_irregularities,
)


def test_an_option_that_the_runs_record_lacks_counts_only_where_it_is_set(tmp_path: Path) -> None:
    resolved = load_config("default")
    record = resolved.dump()
    del record["training"]["adam_eps"], record["algorithm"]["entropy_coef"]
    with Run.create(tmp_path, "older", record, resolved.registry.to_json()) as run:
        check_resumable(run, resolved, force=False)
        with pytest.raises(RunError, match=r"other values of training\.adam_eps;"):
            check_resumable(run, load_config("default", ["training.adam_eps=1e-6"]), force=False)
        with pytest.raises(RunError, match=r"other values of training\.lr;"):
            check_resumable(run, load_config("default", ["training.lr=1e-6"]), force=False)
        run.checkpoints.save(3, lambda folder: None)
        check_resumable(run, load_config("default", ["training.steps=3"]), force=False)
        with pytest.raises(RunError, match=r"has done 3 steps, and training\.steps=2 asks for fewer; give at least 3"):
            check_resumable(run, load_config("default", ["training.steps=2"]), force=False)


def test_what_is_recorded_may_change_also_of_a_run_that_recorded_nothing_of_it(tmp_path: Path) -> None:
    resolved = load_config("default")
    older = resolved.dump()
    del older["recording"]
    for name, record in (("newer", resolved.dump()), ("older", older)):
        with Run.create(tmp_path, name, record, resolved.registry.to_json()) as run:
            check_resumable(run, load_config("default", ["recording.learner=false"]), force=False)


def test_a_service_may_move_but_nothing_else_of_a_tool(tmp_path: Path) -> None:
    def tool(url: str, top_k: int) -> str:
        return f"tools=[{{name: wiki_search, backend: remote, url: '{url}', top_k: {top_k}}}]"

    resolved = load_config("default", [tool("http://one:1", 3)])
    with Run.create(tmp_path, "run", resolved.dump(), resolved.registry.to_json()) as run:
        check_resumable(run, load_config("default", [tool("http://two:2", 3)]), force=False)
        with pytest.raises(RunError, match=r"other values of tools;"):
            check_resumable(run, load_config("default", [tool("http://two:2", 4)]), force=False)


@pytest.mark.parametrize("name", ["2024/7", "null/1e3", "a: b/x"])
def test_a_path_that_looks_like_a_number_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    resolved = load_config("default")
    home, _, last = name.partition("/")
    Run.create(home, last, resolved.dump(), resolved.registry.to_json()).close()
    settings = resolve(name, [], resume=True).config.run
    assert (settings.dir, settings.name) == (home, last)


@pytest.mark.parametrize("key", ["threads", "model.dtype", "model.device"])
def test_a_record_without_a_choice_of_hardware_is_damaged(tmp_path: Path, key: str) -> None:
    record: dict[str, Any] = {"threads": 1, "model": {"dtype": "float32", "device": "cpu"}}
    section, _, option = key.rpartition(".")
    del (record[section] if section else record)[option]
    with Run.create(tmp_path, "run", record, []) as run, pytest.raises(RunError, match=f"names no {key}; restore"):
        hardware_choices(run)


PLUGIN = {"name": "p", "distribution": None, "version": None, "value": "p.py", "status": "ok", "file_hash": None}


@pytest.mark.parametrize("wrong", [{"components": [{"kind": "tool", "name": 3}]}, {"components": {}}, {"version": 1}])
def test_a_damaged_record_of_plugins_is_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    record = {**PLUGIN, "components": [{"kind": "tool", "name": "x"}]}
    with Run.create(tmp_path, "run", {}, [record]) as run:
        assert recorded_plugins(run.path) == [record]
    (run.path / "plugins.json").write_text(json.dumps([record | wrong]))
    with pytest.raises(RunError, match=r"plugins\.json is damaged"):
        recorded_plugins(run.path)


def test_a_plugin_file_that_is_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    check_plugin_files([{**PLUGIN, "value": str(tmp_path / "pipe.py"), "file_hash": "0"}])


def save_policy(folder: Path) -> None:
    (folder / "policy").mkdir()
    (folder / "policy" / "weights").write_text("some")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of six steps, with checkpoints after the second, fourth and sixth."""
    with Run.create(tmp_path, "run", {}, []) as made:
        for step in range(1, 7):
            write_trajectories(made.trajectory_file(step), step, [make_trajectory(reward=float(step))])
            made.append_metrics(step, {"reward/mean": step})
            if step % 2 == 0:
                made.checkpoints.save(step, save_policy, keep=9)
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


def test_a_whole_run_goes_on_from_its_newest_checkpoint_without_a_word(run: Run) -> None:
    assert chosen(run) == (6, [])
    (run.path / "trajectories" / "step_000007.parquet").touch()  # a kill between the file and its line
    assert chosen(run) == (6, [])


def test_metrics_that_end_early_are_written_again_from_the_checkpoint_before(run: Run) -> None:
    rewrite_metrics(run, [1, 2, 3, 4, 5])
    step, said = chosen(run)
    assert step == 4
    assert said == [
        "metrics.jsonl ends with step 5, before step_000006: the run goes on from step_000004 and repeats what has no "
        "record"
    ]


def test_what_only_an_old_checkpoint_could_repeat_is_told_instead(run: Run) -> None:
    rewrite_metrics(run, [1, 2, 3, 4, 5])
    assert run.checkpoints.at(4).path.rename(run.path / "elsewhere").is_dir()
    assert chosen(run) == (
        6,
        ["metrics.jsonl has no line of step 6, and nothing can bring it back: the run goes on without"],
    )


def test_lines_and_files_that_are_doubled_missing_or_surplus_are_named(run: Run) -> None:
    rewrite_metrics(run, [1, 1, 4, 5, 6])
    for step in (2, 3, 5):
        (run.path / "trajectories" / f"step_{step:06d}.parquet").unlink()
    for step in (8, 9):
        (run.path / "trajectories" / f"step_{step:06d}.parquet").touch()
    assert chosen(run) == (
        6,
        [
            "metrics.jsonl has several lines of step 1: the last one of each counts",
            "metrics.jsonl has no line of step 2 to 3, and nothing can bring it back: the run goes on without",
            "trajectories/ has no file of step 2 to 3, 5, and nothing can bring it back: the run goes on without",
            "trajectories/ has files of step 8 to 9 without lines in metrics.jsonl: they are deleted",
        ],
    )


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
