"""The environment `sokoban`: push every box onto a target. A small one of our own, which needs no package.

Rewards are a tenth of gym-sokoban's: -0.01 for each move, 0.1 for a box that comes onto a target, -0.1 for one that
leaves it, 1 for the solved room. Pushing a box off and on again therefore pays nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import Field, model_validator

from agent_r1_core import ComponentConfig, EnvServices
from agent_r1_gymnasium.world import Outcome, World, WorldConfig

Cell = tuple[int, int]
STEPS: dict[str, Cell] = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}


@dataclass(frozen=True)
class Level:
    """A room: its outer cells are walls."""

    size: int
    walls: frozenset[Cell]
    targets: frozenset[Cell]
    boxes: frozenset[Cell]
    player: Cell

    def after(self, direction: str) -> Level:
        """The level after a move; the same one where a wall, or a box that cannot be pushed, is in the way."""
        to = _beside(self.player, STEPS[direction])
        beyond = _beside(to, STEPS[direction])
        if to in self.walls or (to in self.boxes and (beyond in self.walls or beyond in self.boxes)):
            return self
        boxes = self.boxes - {to} | {beyond} if to in self.boxes else self.boxes
        return Level(self.size, self.walls, self.targets, boxes, to)

    def before(self, direction: str) -> Level | None:
        """The level before the push in that direction that led here; None if there can have been none."""
        step = STEPS[direction]
        box, stood = _beside(self.player, step), _beside(self.player, (-step[0], -step[1]))
        if box not in self.boxes or stood in self.walls or stood in self.boxes:
            return None
        return Level(self.size, self.walls, self.targets, self.boxes - {box} | {self.player}, stood)

    @property
    def solved(self) -> bool:
        """Whether every box is on a target."""
        return self.boxes == self.targets

    def __str__(self) -> str:
        """Rows of # wall, _ floor, O target, X box, √ box on a target, P player, S player on a target."""
        return "\n".join(
            "".join(self._symbol((row, column)) for column in range(self.size)) for row in range(self.size)
        )

    def _symbol(self, cell: Cell) -> str:
        on_target = cell in self.targets
        if cell in self.walls:
            return "#"
        if cell in self.boxes:
            return "√" if on_target else "X"
        if cell == self.player:
            return "S" if on_target else "P"
        return "O" if on_target else "_"


def draw_level(rng: random.Random, size: int, boxes: int, walls: float, pulls: int) -> Level:
    """A random level with every box off the targets, `pulls` pushes away from its solution, or fewer where the room
    allows no more."""
    while True:
        cells = [(row, column) for row in range(size) for column in range(size)]
        inner = [cell for cell in cells if min(cell) > 0 and max(cell) < size - 1]
        free = [cell for cell in inner if rng.random() >= walls]
        if len(free) <= boxes + 1:
            continue
        chosen = rng.sample(free, boxes + 1)
        targets = frozenset(chosen[1:])
        level = Level(size, frozenset(set(cells) - set(free)), targets, targets, chosen[0])
        for _ in range(pulls):
            earlier = list(_last_pushes(level))
            if not earlier:
                break
            level = rng.choice(earlier)
        reached = sorted(_reach(level))
        level = Level(size, level.walls, targets, level.boxes, rng.choice(reached))
        if not level.boxes & targets:
            return level


def _last_pushes(level: Level) -> Iterator[Level]:
    """The levels one push earlier, with every walk of the player between."""
    for cell in sorted(_reach(level)):
        here = Level(level.size, level.walls, level.targets, level.boxes, cell)
        for direction in STEPS:
            earlier = here.before(direction)
            if earlier is not None:
                yield earlier


def _reach(level: Level) -> set[Cell]:
    """The cells to which the player can walk."""
    seen, left = {level.player}, [level.player]
    while left:
        cell = left.pop()
        for step in STEPS.values():
            following = _beside(cell, step)
            if following not in seen and following not in level.walls and following not in level.boxes:
                seen.add(following)
                left.append(following)
    return seen


def _beside(cell: Cell, step: Cell) -> Cell:
    return cell[0] + step[0], cell[1] + step[1]


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
        return str(self._level)

    def actions(self) -> Mapping[str, int]:
        return ACTIONS
