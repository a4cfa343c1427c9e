"""The built-in context strategies keep the contract of their kind."""

from __future__ import annotations

from types import MappingProxyType

from agent_r1_contexts.append import Append
from agent_r1_contexts.summary import Summary
from agent_r1_contexts.window import Window

from agent_r1_core.testing import ContextContract


class TestAppend(ContextContract):
    component = Append


class TestWindow(ContextContract):
    component = Window
    config = MappingProxyType({"turns": 3})


class TestSummary(ContextContract):
    component = Summary
    config = MappingProxyType({"turns": 4, "summary_tokens": 40})
