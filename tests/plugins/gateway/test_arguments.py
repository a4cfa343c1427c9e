"""Arguments of calls, read from whatever a client writes."""

from __future__ import annotations

from typing import Any

import pytest
from agent_r1_gateway.dialects import chat
from agent_r1_gateway.wire import DEEPEST, Call, ChatMessage, Refused, read_arguments, too_deep


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        ("{'a': True, 'b': None}", {"a": True, "b": None}),
        ("{'a': (1, 2)}", {"a": [1, 2]}),
        ("{'a': {1, 2}}", "{'a': {1, 2}}"),
        ("[1]", "[1]"),
        ("  ", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ("go", "go"),
        ('{"a":' * 1000 + "1" + "}" * 1000, '{"a":' * 1000 + "1" + "}" * 1000),
        ('{"a":' * 500 + "1" + "}" * 500, '{"a":' * 500 + "1" + "}" * 500),
    ],
)
def test_arguments_are_an_object_or_the_text_itself(written: Any, read: Any) -> None:
    got = read_arguments(written)

    assert got == read
    assert ChatMessage("assistant", calls=(Call("f", got),)).key()


def test_a_value_may_nest_up_to_the_limit() -> None:
    assert not too_deep(nested(DEEPEST))
    assert too_deep(nested(DEEPEST + 1))
    assert too_deep(nested(5000))


def test_a_field_that_is_too_deep_is_refused_by_name() -> None:
    message = {"role": "user", "content": "a"}
    with pytest.raises(Refused, match=r"more than 100 levels deep") as refused:
        chat.read({"messages": [message], "metadata": nested(1000)})

    assert refused.value.field == "metadata"
