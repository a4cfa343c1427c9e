"""The environment `frozen_lake`: gymnasium's slippery lake on a solvable map that the task's seed draws.

gymnasium's own seed draws only the slips, and never the map; its rendering marks the player by colour and hides the
cell below. Here the map comes from `task.seed`, the slips from the episode, and the text is RAGEN's (arXiv 2504.20073):
P the player, _ ice, O a hole, G the goal.

There are few maps of 4x4, so seeds alone would hold nothing out: a map belongs either to the seeds below HELD_OUT or to
those from there on.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from agent_r1_core import ComponentConfig, EnvServices
from agent_r1_gymnasium.env import Gymnasium
from agent_r1_gymnasium.world import Outcome, WorldConfig

with contextlib.suppress(ImportError):
    import gymnasium
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv, generate_random_map

HELD_OUT = 1_000_000
"""The first seed of evaluation: from it on, seeds draw maps that no lower seed can have, a fifth of all."""
ACTIONS = {"left": 0, "down": 1, "right": 2, "up": 3}
_STEPS = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}
_SYMBOLS = {"S": "_", "F": "_", "H": "O", "G": "G"}


class FrozenLakeConfig(WorldConfig):
    """Options of `frozen_lake`; the step budget is `max_turns` times `actions_per_turn`."""

    size: int = Field(4, ge=2, le=20)
    """Rows and columns."""
    frozen: float = Field(0.8, gt=0, le=1)
    """Chance of a cell to be ice and not a hole; maps without a way to the goal are drawn again."""
    success_rate: float = Field(0.8, gt=0, le=1)
    """Chance to go where one wants; else one slips to the left or the right of it, equally often. gymnasium's own
    default is 1/3, with which not even the optimal policy gets far."""
    nearer: float = Field(0.0, ge=0)
    """Process reward for each step by which the way to the goal grows shorter than it has been; the episode gets it at
    most once for every step of that way."""
    view: Literal["grid", "around", "both"] = "grid"
    """`grid`: the map; `around`: row and column of the player, counted from 0, and the four cells around it (# is the
    edge); `both`."""


class FrozenLake(Gymnasium):
    """Reach the goal, 1; fall into a hole or run out of turns, 0."""

    Config = FrozenLakeConfig

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._ways: dict[int, int] = {}
        self._left = 0

    def begin(self, seed: int) -> None:
        """A new lake, with nothing of the way done."""
        super().begin(seed)
        self._ways = ways(self._env.desc)  # type: ignore[union-attr]
        self._left = self._ways[0]

    def move(self, action: int) -> Outcome:
        """One step, which may be worth something for coming nearer."""
        outcome, lake = super().move(action), self._env
        left = self._ways.get(int(lake.s), self._left)  # type: ignore[union-attr]
        gained, self._left = max(0, self._left - left), min(self._left, left)
        return replace(outcome, reward=outcome.reward + self.config.nearer * gained)

    def make(self, seed: int) -> gymnasium.Env:
        """A lake of its own for every seed, without a time limit besides the run's budget."""
        config = self.config
        desc = draw_map(seed, config.size, config.frozen)
        return FrozenLakeEnv(desc=desc, is_slippery=config.success_rate < 1, success_rate=config.success_rate)

    def succeeded(self, reward: float, terminated: bool, info: Mapping[str, Any]) -> bool | None:
        """Only the goal has a reward."""
        return reward > 0

    def actions(self) -> Mapping[str, int]:
        return ACTIONS

    def show(self) -> str:
        """The map with the player in it, the cells around the player, or both."""
        lake: Any = self._env
        cells = [[_SYMBOLS[cell.decode()] for cell in row] for row in lake.desc]
        row, column = divmod(int(lake.s), self.config.size)
        around = f"at {row} {column}: " + " ".join(
            f"{name} {_cell(cells, row + down, column + right)}" for name, (down, right) in _STEPS.items()
        )
        cells[row][column] = "P"
        grid = "\n".join("".join(line) for line in cells)
        return {"grid": grid, "around": around, "both": f"{grid}\n{around}"}[self.config.view]


def draw_map(seed: int, size: int, frozen: float) -> list[str]:
    """The solvable map of a seed, as rows of gymnasium's letters.

    Where there is hardly a second map (`frozen: 1`), none can be held out.
    """
    for attempt in range(200):
        desc = generate_random_map(size=size, p=frozen, seed=seed + attempt * 2**32)
        if (zlib.crc32("".join(desc).encode()) % 5 == 0) == (seed >= HELD_OUT):
            break
    return desc


def ways(rows: Sequence[Sequence[bytes]]) -> dict[int, int]:
    """How many steps over ice each cell is from the goal; without holes and the cells from which there is no way."""
    width = len(rows[0])
    cells = {(row, column): cell for row, line in enumerate(rows) for column, cell in enumerate(line)}
    border = [place for place, cell in cells.items() if cell == b"G"]
    found = dict.fromkeys(border, 0)
    while border:
        steps = [
            ((row + down, column + right), (row, column)) for row, column in border for down, right in _STEPS.values()
        ]
        near = {to: found[place] + 1 for to, place in steps if to not in found and cells.get(to, b"H") != b"H"}
        found |= near
        border = list(near)
    return {row * width + column: steps for (row, column), steps in found.items()}


def _cell(cells: list[list[str]], row: int, column: int) -> str:
    inside = 0 <= row < len(cells) and 0 <= column < len(cells)
    return cells[row][column] if inside else "#"
