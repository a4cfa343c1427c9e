"""Texts of runs in answers are cut where they are long, and every number of them is JSON."""

from __future__ import annotations

import json
from math import inf, nan

from agent_r1_viewer.shown_text import LONGEST, cut, messages, shortened

from agent_r1_core.contracts.json_text import to_json


def test_numbers_that_are_none_are_words_however_deep_they_lie() -> None:
    value = {"a": [1.5, nan, (inf, {"b": -inf})], "c": None}
    assert json.loads(to_json(value)) == {"a": [1.5, "NaN", ["Infinity", {"b": "-Infinity"}]], "c": None}
    assert to_json({"a": [1, 2.5], "b": "\u2028"}) == r'{"a":[1,2.5],"b":"\u2028"}'


def test_texts_are_cut_above_the_longest() -> None:
    fits, longer = "a" * LONGEST, "a" * (LONGEST + 1)
    assert (cut("text", fits), cut("text", longer)) == ({"text": fits}, {"text": fits, "cut": LONGEST + 1})
    ending = f"{fits} … ({LONGEST + 1:,} characters)"
    assert shortened([fits, {"b": (longer, 7)}]) == [fits, {"b": [ending, 7]}]


def test_messages_say_who_speaks_and_how_long_what_is_cut_was() -> None:
    short, long = {"role": "tool", "name": "map", "content": "é"}, {"role": "user", "content": "a" * (LONGEST + 1)}
    assert messages([short, long]) == [short, {"role": "user", "content": "a" * LONGEST, "cut": LONGEST + 1}]
