"""What a running matrix shows, and how long it still takes: by what has finished, and by estimates before."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_r1_paper.cost import cell_seconds, flops_per_token, time_left, trained_episodes
from agent_r1_paper.matrix import Cell, Matrix
from agent_r1_paper.matrix_display import MatrixDisplay
from agent_r1_paper.store import Store
from agent_r1_paper.tables import SCALES, TABLES

PPO, GRPO = (Cell(row, 0) for row in TABLES["table3"].rows[-2:])


def shown(live: bool) -> str:
    stream = io.StringIO()
    with MatrixDisplay(stream, live=live) as display:
        display.begin(PPO, 1, 2, 7300.0)
        display.look("step 3/25  reward 0.400")
        display.end(PPO, 90.4, None)
        display.begin(GRPO, 2, 2, 3700.0)
        display.look("step 4/25  reward 0.500")
        display.end(GRPO, 5.0, "the GPU is full\x1b[2J (see grpo-0.log)")
        display.skip(GRPO, "another process runs it")
    return stream.getvalue()


def test_without_a_terminal_each_cell_has_two_lines() -> None:
    assert shown(live=False).splitlines() == [
        "ppo-0 begins, 1 of 2, about 2:01:40 left in all",
        "ppo-0 finished after 1:30",
        "grpo-0 begins, 2 of 2, about 1:01:40 left in all",
        "grpo-0 failed after 5 s: the GPU is full\\x1b[2J (see grpo-0.log)",
        "grpo-0 is left out: another process runs it",
    ]


def test_a_terminal_shows_the_cell_its_last_line_and_the_time_left() -> None:
    text = shown(live=True)
    assert "ppo-0 finished after 1:30" in text
    assert "step 4/25  reward 0.500" in text
    assert "left, grpo-0" in text
    assert "\x1b[2J" not in text.replace("\x1b[2K", "")


@pytest.fixture
def small(matrix: Callable[..., Matrix], store: Store) -> Matrix:
    small = matrix("table3", seeds=2, rows=("naive_rag", "ppo", "grpo"))
    store.open(small, resume=False)
    return small


def finish(matrix: Matrix, store: Store, commands: Any, name: str, seconds: float) -> None:
    """Record that a cell took so long."""
    cell = next(cell for cell in matrix.cells() if cell.name == name)
    made = [commands(command, store.log(cell)) for command in matrix.commands(cell, store.runs)]
    store.finish(cell, [], Path(json.loads(made[-1])["file"]), seconds)


def test_estimates_are_corrected_by_the_speed_of_this_machine(small: Matrix, store: Store, commands: Any) -> None:
    by_name = {cell.name: cell_seconds(small, cell) for cell in small.cells()}
    assert time_left(small, store) == pytest.approx(sum(by_name.values()))
    finish(small, store, commands, "naive_rag.check", 3 * by_name["naive_rag.check"])
    trained = sum(by_name[name] for name in ("ppo-0", "grpo-0", "ppo-1", "grpo-1"))
    expected = 3 * (by_name["naive_rag.check"] + trained)
    assert time_left(small, store) == pytest.approx(expected), "the whole of naive_rag is as long as its check"


def test_cells_of_the_same_row_tell_most(small: Matrix, store: Store, commands: Any) -> None:
    for name, seconds in (("naive_rag.check", 1.0), ("naive_rag", 2.0), ("ppo-0", 100.0)):
        finish(small, store, commands, name, seconds)
    assert time_left(small, store) == 300.0, "ppo once more, and grpo as long as ppo"
    finish(small, store, commands, "grpo-0", 40.0)
    assert time_left(small, store) == 140.0


def test_the_real_methods_cost_what_the_docs_say() -> None:
    configs = Matrix(TABLES["table3"], SCALES["paper"]).configs
    counted = {name: (flops_per_token(config), trained_episodes(config)) for name, config in configs.items()}
    like_grpo = ("grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline")
    assert [counted[name] for name in like_grpo] == [(12, 256_000)] * 4
    assert counted["ppo"] == (22, 51_200)
