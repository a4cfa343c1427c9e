"""The environment `countdown` keeps the contract of environments."""

from __future__ import annotations

from typing import ClassVar

from agent_r1_countdown.env import Countdown

from agent_r1_core.testing import ToolEnvContract


class TestCountdown(ToolEnvContract):
    component = Countdown
    config: ClassVar = {"tries": 3}
    actions = ("<answer>1 + 1</answer>", "Hm.", "<answer>1 +</answer>")
