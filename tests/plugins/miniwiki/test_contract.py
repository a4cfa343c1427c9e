"""The task source `miniwiki` keeps the contract of task sources."""

from __future__ import annotations

from typing import ClassVar

from agent_r1_miniwiki.source import MiniWiki

from agent_r1_core.testing import TaskSourceContract


class TestMiniwiki(TaskSourceContract):
    component = MiniWiki
    config: ClassVar = {"size": 20}
