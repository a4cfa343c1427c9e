"""Context strategies keep the contract of their kind; what a recipe may say about them."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from agent_r1_contexts.append import Append
from agent_r1_contexts.summary import Summary
from agent_r1_contexts.window import Window

from agent_r1_core.config import load_config
from agent_r1_core.errors import AgentR1Error
from agent_r1_core.testing import ContextContract


class TestAppend(ContextContract):
    component = Append


class TestWindow(ContextContract):
    component = Window
    config = MappingProxyType({"turns": 3})


class TestSummary(ContextContract):
    component = Summary
    config = MappingProxyType({"turns": 4, "summary_tokens": 40})


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["context={name: summary, max_tokens: 1024}"], "must be below env.max_tokens=1024, not 1024; change one"),
        (
            ["context={name: summary, max_tokens: 900, summary_tokens: 124}"],
            "leaves above a context of 900 tokens, not 124",
        ),
        (["context=summary", "env.max_tokens=200"], "must be below 100, what env.max_tokens=200 leaves above"),
        (["context={name: summary, turns: 5}"], "must be below env.max_turns=5, not 5; change one of them"),
    ],
)
def test_what_cannot_work_is_one_sentence(overrides: list[str], sentence: str) -> None:
    with pytest.raises(AgentR1Error) as caught:
        load_config("default", overrides)
    assert sentence in str(caught.value)


def test_everything_is_the_default_and_what_can_work_is_complete() -> None:
    assert load_config("default").config.context.name == "append"
    context = load_config("default", ["context={name: summary, turns: 4, summary_tokens: 511}"]).config.context
    assert (context.model_dump()["max_tokens"], context.config.summary_tokens) == (None, 511)
