"""The environment `program` keeps the contract of environments."""

from __future__ import annotations

from typing import ClassVar

from agent_r1_gateway.env import ProgramEnv

from agent_r1_core.testing import ToolEnvContract


class TestProgram(ToolEnvContract):
    component = ProgramEnv
    config: ClassVar = {"function": "agent_r1_gateway.testing:echo"}
    actions = ("one", "two", "three")
