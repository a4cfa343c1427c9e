"""The environment `sokoban`: push every box onto a target. A small one of our own, which needs no package.

Rewards are a tenth of gym-sokoban's: -0.01 for each move, 0.1 for a box that comes onto a target, -0.1 for one that
leaves it, 1 for the solved room. Pushing a box off and on again therefore pays nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from pydantic import Field, model_validator

from agent_r1_core import ComponentConfig, EnvServices
from agent_r1_gymnasium.sokoban_level import STEPS, Level, draw_level
from agent_r1_gymnasium.world import Outcome, World, WorldConfig

MOVE, TARGET, SOLVED = -0.01, 0.1, 1.0
ACTIONS = {name: number for number, name in enumerate(STEPS)}


class SokobanConfig(WorldConfig):
    """Options of `sokoban`."""

    size: int = Field(6, ge=5, le=20)
    """Rows and columns, the outer walls included."""
    boxes: int = Field(1, ge=1, le=5)
    """Boxes, and so targets."""
    walls: float = Field(0.1, ge=0, le=0.3)
    """Share of the inner cells that are walls."""
    pulls: int = Field(4, ge=1)
    """Pushes that are taken back from a solution to make a level: the more, the harder."""

    @model_validator(mode="after")
    def _has_room(self) -> SokobanConfig:
        if self.boxes > (self.size - 2) ** 2 // 4:
            raise ValueError(f"has no room for {self.boxes} boxes in {self.size} rows and columns; enlarge size")
        return self


class Sokoban(World):
    """A level that the task's seed draws; it can be solved, until a wrong push."""

    Config = SokobanConfig

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._level: Level

    def begin(self, seed: int) -> None:
        """Draw the level."""
        config = self.config
        self._level = draw_level(random.Random(seed), config.size, config.boxes, config.walls, config.pulls)
        self._outcome = Outcome(success=False)

    def move(self, action: int) -> Outcome:
        """Walk or push; a move against a wall costs its reward and changes nothing."""
        before = self._level
        level = self._level = before.after(list(STEPS)[action])
        gained = len(level.boxes & level.targets) - len(before.boxes & before.targets)
        reward = MOVE + TARGET * gained + (SOLVED if level.solved else 0.0)
        return Outcome(reward, terminated=level.solved, success=level.solved)

    def show(self) -> str:
        """The room."""
        return str(self._level)

    def actions(self) -> Mapping[str, int]:
        """The four directions."""
        return ACTIONS
