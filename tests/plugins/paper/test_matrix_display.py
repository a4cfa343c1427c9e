"""What a running matrix shows: on a terminal one live bar, elsewhere a line when a cell begins and ends."""

from __future__ import annotations

import io

from agent_r1_paper.matrix import Cell
from agent_r1_paper.matrix_display import MatrixDisplay
from agent_r1_paper.tables import TABLES

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
