"""Tests of the context strategy `{{name}}`."""

import asyncio

from agent_r1_core import Exchange, History
from agent_r1_core.testing import ContextContract, PluginContract
from {{package}} import plugin
from {{package}}.context import {{class}}


class TestContext(ContextContract):
    component = {{class}}

    def test_old_answers_are_cut_once(self) -> None:
        said = [{"role": "user", "content": f"{word} " * 20} for word in ("old", "new")]
        exchanges = tuple(Exchange({"role": "assistant", "content": "Go."}, (message,)) for message in said)
        strategy = {{class}}({{class}}.Config(characters=20))
        history = History(({"role": "user", "content": "Begin."},), (), exchanges, 400, None)
        chosen = asyncio.run(strategy.next_context(history))
        assert [message["content"] for message in chosen[2::2]] == ["old old old ol [cut]", said[1]["content"]]
        assert strategy._cut(chosen[2]) is chosen[2]


class TestPlugin(PluginContract):
    plugin = plugin
