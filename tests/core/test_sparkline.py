"""Numbers as a line of bars: scaled to their own range, as wide as there is room, in what the stream can encode."""

from __future__ import annotations

import math

import pytest

from agent_r1_core.sparkline import BLOCKS, PLAIN, span_text, sparkline

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([], 10, ""),
        ([0.5], 10, "▁"),
        ([0.2, 0.2, 0.2], 10, "▁▁▁"),
        (list(range(8)), 8, BLOCKS),
        ([-1, 1], 10, "▁█"),
        ([0, 2, 4, 6, 8, 8], 3, "▁▅█"),
        ([0, NAN, 7, INF], 10, "▁ █ "),
        ([NAN, NAN], 10, "  "),
        ([0, 2, NAN, NAN, 4, 6], 3, "▁ █"),
        ([-1.7e308, 1.7e308], 10, "▁█"),
        ([1, 2, 3], 0, ""),
    ],
)
def test_each_value_has_the_height_of_its_place_in_the_range(values: list[float], width: int, line: str) -> None:
    assert sparkline(values, width) == line


def test_a_line_never_exceeds_its_width_and_shows_every_value_somewhere() -> None:
    values = [0.0] * 1000
    values[613] = 1.0
    line = sparkline(values, 37)
    assert len(line) == 37
    assert line.count("█") == 1


def test_an_encoding_without_blocks_gets_plain_characters() -> None:
    assert sparkline(range(8), 8, "ascii") == PLAIN
    assert sparkline(range(8), 8, "latin-1") == PLAIN
    assert sparkline(range(8), 8, "cp437") == PLAIN, "it has only some of them"
    assert sparkline(range(8), 8, "utf-8") == BLOCKS


@pytest.mark.parametrize(
    ("values", "text"),
    [([0.285, 0.9601, 0.5], "0.285 to 0.96"), ([2, 2.0], "2"), ([NAN, INF], ""), ([], ""), ([NAN, -0.5], "-0.5")],
)
def test_the_range_is_named(values: list[float], text: str) -> None:
    assert span_text(values) == text
