"""The built-in formats keep the contract of tool formats."""

from __future__ import annotations

from agent_r1_tool_formats.hermes import Hermes
from agent_r1_tool_formats.search_tags import SearchTags

from agent_r1_core.testing import ToolFormatContract


class TestHermes(ToolFormatContract):
    """`hermes`."""

    component = Hermes
    malformed = ("<tool_call>{}</tool_call>", "<tool_call>", "<tool_call>search</tool_call>")


class TestSearchTags(ToolFormatContract):
    """`search_tags`."""

    component = SearchTags
    malformed = ("<search></search>", "<search>Agent")
