"""Matrix: the cells that fill a table (rows x seeds), and the commands of agent-r1 that make each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agent_r1_core.config import ResolvedConfig
from agent_r1_core.config.checks import only_of_training
from agent_r1_core.config.overrides import parse_override, text_override
from agent_r1_core.errors import ConfigError
from agent_r1_core.training.api import resolve
from agent_r1_paper.tables import Check, Row, Scale, Table

_OWN = {"run.dir": "--dir", "run.name": "--dir", "seed": "--seeds"}
"""Keys that the matrix sets itself, and the option that decides them."""


@dataclass(frozen=True)
class Cell:
    """One training with its evaluation, or one evaluation of a model as it is."""

    row: Row
    seed: int | None = None
    """None: nothing is trained; the one greedy evaluation draws nothing."""
    check: Check | None = None
    """The cell decides whether its row is void."""

    @property
    def name(self) -> str:
        """Names its record, its run and its log."""
        if self.check is not None:
            return f"{self.row.name}.check"
        return self.row.name if self.seed is None else f"{self.row.name}-{self.seed}"


@dataclass(frozen=True)
class Matrix:
    """A table at a scale."""

    table: Table
    scale: Scale
    seeds: int = 3
    overrides: tuple[str, ...] = ()
    """Of every recipe."""
    rows: tuple[str, ...] = ()
    """The rows to run; empty: all."""

    def __post_init__(self) -> None:
        for text in self.overrides:
            key = _key(text)
            if key in _OWN:
                raise ConfigError(f"override '{text}': the matrix decides {key}; use {_OWN[key]}")
        known = [row.name for row in self.table.rows]
        for name in self.rows:
            if name not in known:
                raise ConfigError(f"{self.table.name} has no row {name!r}; its rows are {', '.join(known)}")
        for text in self.overrides:
            if own := [row.name for row in self.asked if _key(text) in map(_key, row.overrides)]:
                raise ConfigError(
                    f"override '{text}': {_key(text)} is what sets the row {own[0]} apart; leave it out, or name other "
                    "rows with --row"
                )

    @property
    def keys(self) -> set[str]:
        """The keys that the overrides set."""
        return {_key(text) for text in self.overrides}

    @property
    def asked(self) -> list[Row]:
        """The table's rows that are to run."""
        return [row for row in self.table.rows if not self.rows or row.name in self.rows]

    def cells(self) -> list[Cell]:
        """The cells in the order in which they run: what trains nothing, then seed by seed."""
        return self._cells(self.asked)

    def all_cells(self) -> list[Cell]:
        """The cells of all rows of the table."""
        return self._cells(self.table.rows)

    def _cells(self, rows: Sequence[Row]) -> list[Cell]:
        fixed = [row for row in rows if not row.trained]
        checks = [Cell(row, check=self.scale.checks[row.name]) for row in fixed if row.name in self.scale.checks]
        trained = [Cell(row, seed) for seed in range(self.seeds) for row in rows if row.trained]
        return [*checks, *(Cell(row) for row in fixed), *trained]

    def recipe(self, row: Row) -> str:
        """The name of a row's recipe."""
        return (self.table.recipe or self.scale.recipe).format(method=row.method)

    @cached_property
    def configs(self) -> dict[str, ResolvedConfig]:
        """The configuration of each row that is to run.

        Raises:
            ConfigError, PluginError: a recipe or an override is wrong, or a recipe does not report the same sets as the
                others, one for each column of the table.
        """
        configs = {row.name: resolve(self.recipe(row), self._texts(row), training=row.trained) for row in self.asked}
        sets = [_reported(config) for config in configs.values()]
        for row, own in zip(self.asked, sets, strict=True):
            if len(own) != len(self.table.columns):
                raise ConfigError(
                    f"{self.recipe(row)} reports {len(own)} evaluation sets, but {self.table.name} has a column for "
                    f"each of {', '.join(self.table.columns)}; name {len(self.table.columns)} in tasks.eval, besides "
                    "that of evaluation.choose_on"
                )
            if own != sets[0]:
                raise ConfigError(f"recipes of {self.table.name} report {sets[0]} and {own}; give all the same sets")
        return configs

    @property
    def sets(self) -> dict[str, str]:
        """Our evaluation set by column of the paper."""
        return dict(zip(self.table.columns, _reported(next(iter(self.configs.values()))), strict=True))

    def training(self, cell: Cell, home: Path) -> list[str]:
        """The command that trains a cell's run in the folder `home`."""
        return ["train", self.recipe(cell.row), *self._texts(cell.row), f"seed={cell.seed}", *_place(cell, home)]

    def evaluation(self, cell: Cell, home: Path) -> list[str]:
        """The command that scores a cell: its run's policy, or the recipe's model."""
        whole = [] if "evaluation.size" in self.keys else ["evaluation.size=null"]
        if cell.row.trained:
            return ["eval", str(home / cell.name), *whole, "--json"]
        named = [f"--baseline={cell.row.baseline}"] if cell.row.baseline else []
        asked = self._checked(cell.check) if cell.check is not None else [*self._texts(cell.row), *whole]
        return ["eval", self.recipe(cell.row), *named, *asked, *_place(cell, home), "--json"]

    def commands(self, cell: Cell, home: Path) -> list[list[str]]:
        """All commands of a cell, without `agent-r1`."""
        trained = [self.training(cell, home)] if cell.row.trained else []
        return trained if self.table.trainings_score else [*trained, self.evaluation(cell, home)]

    def _texts(self, row: Row) -> list[str]:
        texts = [*row.overrides, *self.overrides]
        return texts if row.trained else [text for text in texts if not only_of_training(_key(text))]

    def _checked(self, check: Check) -> list[str]:
        """The overrides of a check: those of the matrix, but for what it asks itself."""
        own = ("tasks.eval", "evaluation.choose_on")
        kept = [text for text in self.overrides if not _key(text).startswith(own) and not only_of_training(_key(text))]
        return [*check.overrides, *kept]


def _reported(resolved: ResolvedConfig) -> list[str]:
    """The evaluation sets that a table shows: all but the one that chooses checkpoints."""
    return [name for name in resolved.config.tasks.eval_sets if name != resolved.config.evaluation.choose_on]


def _key(override: str) -> str:
    return override.partition("=")[0].strip()


def _place(cell: Cell, home: Path) -> Sequence[str]:
    place = f"run.dir={home}"
    if parse_override(place).value != str(home):
        place = text_override("run.dir", str(home))
    return [place, f"run.name={cell.name}"]
