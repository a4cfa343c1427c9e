"""The cells of a matrix run once each, in order, whatever fails or interrupts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_r1_paper.matrix import Matrix
from agent_r1_paper.report import make_report
from agent_r1_paper.store import Store

from agent_r1_core.errors import RunError
from agent_r1_core.runs.run import Run

Make = Callable[..., Matrix]
RunMatrix = Callable[..., dict[str, str]]


@pytest.fixture
def small(matrix: Make) -> Matrix:
    return matrix("table3", seeds=2, rows=("naive_rag", "ppo", "grpo"))


@pytest.fixture
def pair(matrix: Make) -> Matrix:
    return matrix("table4", rows=("ppo", "grpo"))


def test_cells_run_seed_by_seed_after_those_that_train_nothing(small: Matrix, run: RunMatrix, commands: Any) -> None:
    assert run(small) == {}
    trained = [f"{command} {name}" for name in ("ppo-0", "grpo-0", "ppo-1", "grpo-1") for command in ("train", "eval")]
    assert commands.ran == ["eval naive_rag.check", "eval naive_rag", *trained]
    assert run(small, resume=True) == {}
    assert len(commands.ran) == 10, "finished cells do not run again"


@pytest.mark.parametrize("where", ["train ppo-0", "eval ppo-0", "eval naive_rag"])
def test_an_interrupted_matrix_goes_on_where_it_stopped(
    small: Matrix, tmp_path: Path, run: RunMatrix, commands: Any, where: str
) -> None:
    whole, broken = Store(tmp_path / "whole"), Store(tmp_path / "broken")
    run(small, store=whole)
    everything, commands.ran = commands.ran, []
    commands.failing[where] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt, match=rf"stopped in {where.split()[1]}, with \d of 6 cells finished"):
        run(small, store=broken)
    assert run(small, resume=True, store=broken) == {}
    assert sorted(commands.ran) == sorted([*everything, where]), "only the interrupted command ran twice"
    tables = [make_report(small, folder, {}).to_json() for folder in (whole, broken)]
    assert tables[0] == tables[1]


def test_a_training_that_left_its_run_unfinished_is_resumed(
    matrix: Make, store: Store, run: RunMatrix, commands: Any
) -> None:
    only = matrix("table4", rows=("ppo",))
    store.open(only, resume=False)
    Run.create(store.runs, "ppo-0", {}, []).close()

    def go_on(command: Any, log: Path) -> str:
        if command[0] == "train":
            with Run.resume(store.runs / "ppo-0") as training:
                training.write_model(lambda folder: None)
            commands.ran.append(" ".join(command))
            return ""
        return str(commands(command, log))

    assert run(only, resume=True, execute=go_on) == {}
    assert commands.ran == [f"train {store.runs / 'ppo-0'} --resume", "eval ppo-0"]


def test_a_failing_cell_stops_no_other_and_is_tried_again(
    pair: Matrix, store: Store, run: RunMatrix, commands: Any
) -> None:
    commands.failing["train ppo-0"] = RunError("the GPU is full (see ppo-0.log)")
    failures = run(pair)
    assert failures == {"ppo-0": "the GPU is full (see ppo-0.log)"}
    lines = {line.row.name: line for line in make_report(pair, store, failures).lines}
    assert (lines["ppo"].status, lines["ppo"].note) == ("not run", "ppo-0: the GPU is full (see ppo-0.log)")
    assert lines["grpo"].status == "done"
    assert run(pair, resume=True) == {}
    assert commands.ran[-2:] == ["train ppo-0", "eval ppo-0"]


def test_two_processes_share_a_folder(pair: Matrix, store: Store, run: RunMatrix, commands: Any) -> None:
    store.open(pair, resume=False)
    with store.claimed(pair.cells()[0]) as ours:
        assert ours
        assert run(pair, resume=True, store=Store(store.path)) == {"ppo-0": "another process runs it"}
    assert commands.ran == ["train grpo-0", "eval grpo-0"]


def test_tables_share_the_cells_of_a_row_that_both_have(matrix: Make, run: RunMatrix, commands: Any) -> None:
    run(matrix("table3", rows=("ppo", "grpo")))
    commands.ran.clear()
    run(matrix("table4", rows=("ppo", "grpo-no_loss_mask")), resume=True)
    assert commands.ran == ["train grpo-no_loss_mask-0", "eval grpo-no_loss_mask-0"]
