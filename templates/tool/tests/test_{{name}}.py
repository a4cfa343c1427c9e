"""Tests of the tool `{{name}}`."""

from agent_r1_core.testing import PluginContract, ToolContract
from {{package}} import plugin
from {{package}}.tool import {{class}}


class TestTool(ToolContract):
    component = {{class}}
    arguments = {"word": "Strawberry", "letter": "R"}
    other = {"word": "banana", "letter": "a"}
    expected = "3"
    refused = {"word": "strawberry", "letter": "rr"}


class TestCaseMatters(ToolContract):
    component = {{class}}
    config = {"ignore_case": False}
    arguments = {"word": "Strawberry", "letter": "R"}
    expected = "0"


class TestPlugin(PluginContract):
    plugin = plugin
