"""The cells of a matrix run once each, in order, whatever fails or interrupts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_r1_paper.matrix import Matrix
from agent_r1_paper.report import make_report
from agent_r1_paper.runner import run_matrix
from agent_r1_paper.store import Store

from agent_r1_core.errors import RunError
from agent_r1_core.runs.run import Run

Make = Callable[..., Matrix]


def test_cells_run_seed_by_seed_after_those_that_train_nothing(
    matrix: Make, store: Store, commands: Any, display: Any
) -> None:
    small = matrix("table3", seeds=2, rows=("naive_rag", "ppo", "grpo"))
    store.open(small, resume=False)
    assert run_matrix(small, store, commands, display) == {}
    runs = ["ppo-0", "grpo-0", "ppo-1", "grpo-1"]
    trained = [f"{command} {run}" for run in runs for command in ("train", "eval")]
    assert commands.ran == ["eval naive_rag.check", "eval naive_rag", *trained]
    assert run_matrix(small, store, commands, display) == {}
    assert len(commands.ran) == 10, "finished cells do not run again"


@pytest.mark.parametrize("where", ["train ppo-0", "eval ppo-0", "eval naive_rag", "train grpo-1"])
def test_an_interrupted_matrix_goes_on_where_it_stopped(
    matrix: Make, tmp_path: Path, commands: Any, display: Any, where: str
) -> None:
    small = matrix("table3", seeds=2, rows=("naive_rag", "ppo", "grpo"))
    whole, broken = Store(tmp_path / "whole"), Store(tmp_path / "broken")
    whole.open(small, resume=False)
    run_matrix(small, whole, commands, display)
    everything, commands.ran = commands.ran, []
    broken.open(small, resume=False)
    commands.failing[where] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt, match=rf"stopped in {where.split()[1]}, with \d of 6 cells finished"):
        run_matrix(small, broken, commands, display)
    broken.open(small, resume=True)
    assert run_matrix(small, broken, commands, display) == {}
    assert sorted(commands.ran) == sorted([*everything, where]), "only the interrupted command ran twice"
    tables = [make_report(small, folder, {}).to_json() for folder in (whole, broken)]
    assert tables[0] == tables[1]


def test_a_training_that_left_its_run_unfinished_is_resumed(
    matrix: Make, store: Store, commands: Any, display: Any
) -> None:
    small = matrix("table4", rows=("ppo",))
    store.open(small, resume=False)
    Run.create(store.runs, "ppo-0", {}, []).close()

    def go_on(command: Any, log: Path) -> str:
        if command[0] == "train":
            with Run.resume(store.runs / "ppo-0") as run:
                run.write_model(lambda folder: None)
            commands.ran.append(" ".join(command))
            return ""
        return str(commands(command, log))

    assert run_matrix(small, store, go_on, display) == {}
    assert commands.ran == [f"train {store.runs / 'ppo-0'} --resume", "eval ppo-0"]


def test_a_failing_cell_stops_no_other_and_is_tried_again(
    matrix: Make, store: Store, commands: Any, display: Any
) -> None:
    small = matrix("table4", rows=("ppo", "grpo"))
    store.open(small, resume=False)
    commands.failing["train ppo-0"] = RunError("the GPU is full (see ppo-0.log)")
    failures = run_matrix(small, store, commands, display)
    assert failures == {"ppo-0": "the GPU is full (see ppo-0.log)"}
    lines = {line.row.name: line for line in make_report(small, store, failures).lines}
    assert (lines["ppo"].status, lines["ppo"].note) == ("not run", "ppo-0: the GPU is full (see ppo-0.log)")
    assert lines["grpo"].status == "done"
    assert run_matrix(small, store, commands, display) == {}
    assert commands.ran[-2:] == ["train ppo-0", "eval ppo-0"]


def test_two_processes_share_a_folder(matrix: Make, store: Store, commands: Any, display: Any) -> None:
    small = matrix("table4", rows=("ppo", "grpo"))
    store.open(small, resume=False)
    with store.claimed(small.cells()[0]) as ours:
        assert ours
        assert run_matrix(small, Store(store.path), commands, display) == {"ppo-0": "another process runs it"}
    assert commands.ran == ["train grpo-0", "eval grpo-0"]


def test_tables_share_the_cells_of_a_row_that_both_have(
    matrix: Make, store: Store, commands: Any, display: Any
) -> None:
    first, second = matrix("table3", rows=("ppo", "grpo")), matrix("table4", rows=("ppo", "grpo-no_loss_mask"))
    store.open(first, resume=False)
    run_matrix(first, store, commands, display)
    store.open(second, resume=True)
    commands.ran.clear()
    run_matrix(second, store, commands, display)
    assert commands.ran == ["train grpo-no_loss_mask-0", "eval grpo-no_loss_mask-0"]
