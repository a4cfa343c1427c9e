"""Arguments of calls, read from whatever a client writes."""

from __future__ import annotations

from typing import Any

import pytest
from agent_r1_gateway.wire import DEEPEST, MOST_LITERAL, Call, ChatMessage, read_arguments, too_deep

from .conftest import nested


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, {}),
        ("  ", {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
        (" {'a': (1, None), 2: True}", {"a": [1, None], "2": True}),
        *((text, text) for text in ("x", "3", "null", "[1]", '{"a": 1', "{'a': {1}}", "{'a': b'x'}", "{'a': open}")),
        *((text, text) for text in ("{" * 5000, "{'a': '" + "x" * MOST_LITERAL + "'}", '{"a": ' + "9" * 5000 + "}")),
        *((text, text) for text in ('{"a":' * levels + "1" + "}" * levels for levels in (150, 700, 100_000))),
    ],
)
def test_arguments_are_an_object_or_the_text_itself(written: Any, read: Any) -> None:
    got = read_arguments(written)

    assert got == read
    assert ChatMessage("assistant", calls=(Call("f", got),)).key()


def test_a_value_may_nest_up_to_the_limit() -> None:
    assert not too_deep(nested(DEEPEST // 2))
    assert too_deep([nested(DEEPEST // 2)])
    assert too_deep(nested(5000))
