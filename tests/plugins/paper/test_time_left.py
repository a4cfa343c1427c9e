"""How long a matrix will still take: by what has finished, and by estimates before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_r1_paper.cost import cell_seconds
from agent_r1_paper.matrix import Matrix
from agent_r1_paper.store import Store
from agent_r1_paper.time_left import TimeLeft

Make = Callable[..., Matrix]


@pytest.fixture
def small(matrix: Make, store: Store) -> Matrix:
    small = matrix("table3", seeds=2, rows=("naive_rag", "ppo", "grpo"))
    store.open(small, resume=False)
    return small


def finish(matrix: Matrix, store: Store, commands: Any, name: str, seconds: float) -> None:
    """Record that a cell took so long."""
    cell = next(cell for cell in matrix.cells() if cell.name == name)
    made = [commands(command, store.log(cell)) for command in matrix.commands(cell, store.runs)]
    store.finish(cell, [], Path(json.loads(made[-1])["file"]), seconds)


def test_at_first_it_is_the_sum_of_the_estimates(small: Matrix, store: Store) -> None:
    expected = sum(cell_seconds(small, cell, small.resolve(cell.row)) for cell in small.cells())
    assert TimeLeft(small, store).seconds() == pytest.approx(expected)


def test_estimates_are_corrected_by_the_speed_of_this_machine(small: Matrix, store: Store, commands: Any) -> None:
    by_name = {cell.name: cell_seconds(small, cell, small.resolve(cell.row)) for cell in small.cells()}
    finish(small, store, commands, "naive_rag.check", 3 * by_name["naive_rag.check"])
    trained = sum(by_name[name] for name in ("ppo-0", "grpo-0", "ppo-1", "grpo-1"))
    expected = 3 * (by_name["naive_rag.check"] + trained)
    assert TimeLeft(small, store).seconds() == pytest.approx(expected), "the whole of naive_rag is as long as its check"


def test_cells_of_the_same_row_tell_most(small: Matrix, store: Store, commands: Any) -> None:
    left = TimeLeft(small, store)
    for name, seconds in (("naive_rag.check", 1.0), ("naive_rag", 2.0), ("ppo-0", 100.0)):
        finish(small, store, commands, name, seconds)
    assert left.seconds() == 300.0, "ppo once more, and grpo as long as ppo"
    finish(small, store, commands, "grpo-0", 40.0)
    assert left.seconds() == 140.0


def test_a_recipe_that_cannot_be_resolved_leaves_it_open(small: Matrix, store: Store) -> None:
    broken = Matrix(small.table, small.scale, small.seeds, ("training.stepz=3",), small.rows)
    assert TimeLeft(broken, store).seconds() is None
