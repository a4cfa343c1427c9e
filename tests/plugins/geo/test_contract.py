"""The task source `geo` keeps the contract of task sources."""

from __future__ import annotations

from typing import ClassVar

from agent_r1_geo.source import Geo

from agent_r1_core.testing import TaskSourceContract


class TestGeo(TaskSourceContract):
    component = Geo
    config: ClassVar = {"size": 50}
