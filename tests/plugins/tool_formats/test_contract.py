"""The built-in formats keep the contract of tool formats."""

from __future__ import annotations

from agent_r1_tool_formats.hermes import Hermes
from agent_r1_tool_formats.search_tags import SearchTags

from agent_r1_core.testing import ToolFormatContract


class TestHermes(ToolFormatContract):
    component = Hermes
    malformed = (
        "<tool_call>{}</tool_call>",
        "<tool_call>",
        "<tool_call>search</tool_call>",
        "<tool_call>\n{]\n</tool_call>",
        '<tool_call>{"name": "search"',
        "<tool_call>[]</tool_call>",
    )


class TestSearchTags(ToolFormatContract):
    component = SearchTags
    malformed = ("<search></search>", "<search>Agent", "<search>", "<search> </search>", "</search>")
