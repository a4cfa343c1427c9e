"""What a terminal would obey is shown as an escape."""

from __future__ import annotations

import logging

import pytest

from agent_r1_cli.output import show_logged_warnings
from agent_r1_core.terminal import shown, shown_in_line


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


def test_a_stream_gets_what_it_can_encode():
    assert shown("née 🙂", "ascii") == r"n\xe9e \U0001f642"


def test_logged_warnings_pass_through_too(capsys, monkeypatch):
    monkeypatch.setattr(logging.lastResort, "formatter", None)
    show_logged_warnings()
    logging.lastResort.handle(logging.makeLogRecord({"msg": "tool %s failed", "args": ("\x1b[2J",)}))
    assert capsys.readouterr().err == "tool \\x1b[2J failed\n"


def test_a_line_stays_one_line():
    assert shown_in_line("Error\n  return 1.000\t\x1b") == r"Error\n  return 1.000\t\x1b"
