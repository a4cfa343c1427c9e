"""The worlds with named actions keep the contract of environments."""

from __future__ import annotations

from typing import ClassVar

from agent_r1_gymnasium.bandit import Bandit
from agent_r1_gymnasium.env import Gymnasium
from agent_r1_gymnasium.frozen_lake import FrozenLake
from agent_r1_gymnasium.sokoban import Sokoban

from agent_r1_core.testing import ToolEnvContract, make_task

DOWN, RIGHT = "<answer>down</answer>", "<answer>right</answer>"
SOLUTION = tuple(f"<answer>{name}</answer>" for name in ("up", "left", "left", "down", "right"))


class TestGymnasium(ToolEnvContract):
    component = Gymnasium
    config: ClassVar = {"id": "CliffWalking-v1", "actions": {"up": 0, "right": 1, "down": 2}, "max_steps": 6}
    actions = (DOWN, "Hm.", *["<answer>up</answer>"] * 5)


class TestGymnasiumWithObservations(ToolEnvContract):
    component = Gymnasium
    config: ClassVar = {"id": "Blackjack-v1", "text": "observation"}
    actions = ("<answer>1</answer>",) * 12


class TestFrozenLake(ToolEnvContract):
    component = FrozenLake
    config: ClassVar = {"success_rate": 1.0, "frozen": 1.0}
    task = make_task()
    actions = (DOWN, DOWN, "Hm.", DOWN, RIGHT, RIGHT, RIGHT)


class TestSokoban(ToolEnvContract):
    component = Sokoban
    config: ClassVar = {"size": 5, "walls": 0.0, "pulls": 1}
    task = make_task(seed=3)
    actions = ("Hm.", *SOLUTION)


class TestBandit(ToolEnvContract):
    component = Bandit
    config: ClassVar = {"pulls": 3}
    actions = ("<answer>dragon</answer>", "Hm.", "<answer>phoenix</answer>", "<answer>dragon</answer>")
