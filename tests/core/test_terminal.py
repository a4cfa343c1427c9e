"""What a terminal would obey is shown as an escape; numbers are a line of bars, as wide as there is room."""

from __future__ import annotations

import logging
import math

import pytest

from agent_r1_cli.output import show_logged_warnings
from agent_r1_core.terminal import BLOCKS, PLAIN, shown, shown_in_line, span_text, sparkline

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("paid\rfree\x08\x7f", r"paid\rfree\x08\x7f"),
        ("\x9b31m\x85", r"\x9b31m\x85"),
        ("admin\u202enimda\u2066\u200f\u2028", r"admin\u202enimda\u2066\u200f\u2028"),
        ("half \ud83d a pair", r"half \ud83d a pair"),
        ("née\t中文 🙂\nمی‌خواهم", "née\t中文 🙂\nمی‌خواهم"),
        (r"\x1b", r"\x1b"),
    ],
)
def test_only_what_acts_on_a_terminal_is_escaped(text, expected):
    assert shown(text) == expected


def test_a_stream_gets_what_it_can_encode_and_a_line_stays_one_line():
    assert shown("née 🙂", "ascii") == r"n\xe9e \U0001f642"
    assert shown_in_line("Error\n  return 1.000\t\x1b") == r"Error\n  return 1.000\t\x1b"
    assert sparkline(range(8), 8, "ascii") == PLAIN
    assert sparkline(range(8), 8, "cp437") == PLAIN, "it has only some of them"
    assert sparkline(range(8), 8, "utf-8") == BLOCKS


def test_logged_warnings_pass_through_too(capsys, monkeypatch):
    monkeypatch.setattr(logging.lastResort, "formatter", None)
    show_logged_warnings()
    logging.lastResort.handle(logging.makeLogRecord({"msg": "tool %s failed", "args": ("\x1b[2J",)}))
    assert capsys.readouterr().err == "tool \\x1b[2J failed\n"


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        *(([], 10, ""), ([1, 2, 3], 0, ""), ([0.2, 0.2, 0.2], 10, "▁▁▁"), (list(range(8)), 8, BLOCKS)),
        *(([0, 2, 4, 6, 8, 8], 3, "▁▅█"), ([0, NAN, 7, INF], 10, "▁ █ "), ([0, 2, NAN, NAN, 4, 6], 3, "▁ █")),
        ([-1.7e308, 1.7e308], 10, "▁█"),
    ],
)
def test_each_value_has_the_height_of_its_place_in_the_range(values, width, line):
    assert sparkline(values, width) == line


@pytest.mark.parametrize(
    ("values", "text"),
    [([0.285, 0.9601, 0.5], "0.285 to 0.96"), ([2, 2.0], "2"), ([NAN, INF], ""), ([], ""), ([NAN, -0.5], "-0.5")],
)
def test_the_range_is_named(values, text):
    assert span_text(values) == text
