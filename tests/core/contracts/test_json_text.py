"""Every number of an answer is JSON that browsers read."""

from __future__ import annotations

import json
from math import inf, nan

from agent_r1_core.contracts.json_text import to_json


def test_numbers_that_are_none_are_words_however_deep_they_lie() -> None:
    value = {"a": [1.5, nan, (inf, {"b": -inf})], "c": None}
    assert json.loads(to_json(value)) == {"a": [1.5, "NaN", ["Infinity", {"b": "-Infinity"}]], "c": None}
    assert to_json({"a": [1, 2.5], "b": "\u2028"}) == r'{"a":[1,2.5],"b":"\u2028"}'
