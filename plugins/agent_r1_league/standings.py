"""The standings: every row's numbers over the seeds, with intervals, and whether their order predicts learning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent_r1_cli.output import markdown_table
from agent_r1_core.evaluation.seeds import t_quantile
from agent_r1_league.contest import Row, Size
from agent_r1_league.entrants import TRUTH
from agent_r1_league.levels import LEVELS, errors
from agent_r1_league.worlds import WORLDS

ALL = "all worlds"
COLUMNS = (
    *(f"{number} {level}" for number in ("angle", "bias2", "variance") for level in LEVELS),
    "angle_of_all",
    "learned",
)
PREDICTORS = ("angle token", "angle_of_all", "bias2 token", "variance token")


@dataclass(frozen=True)
class Number:
    """A number over seeds with its 95 % interval: Student's t with the jackknife's standard error, which is the usual
    one for a mean (Efron 1982)."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 0 if max(abs(self.low), abs(self.high)) >= 10 else 2
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


@dataclass(frozen=True)
class Line:
    """A row in one world, or over all."""

    row: str
    world: str
    n: int
    """Seeds; each is another policy."""
    numbers: Mapping[str, Number]
    """By column."""


class Standings:
    """All numbers of a league.

    Args:
        results: by world and seed the rows' numbers.
        left_out: rows that did not take part, with the reason.
    """

    def __init__(
        self, results: Mapping[tuple[str, int], Mapping[str, Row]], size: Size, left_out: Mapping[str, str]
    ) -> None:
        self.size = size
        self.worlds = [name for name in WORLDS if any(world == name for world, _ in results)]
        self.seeds = sorted({seed for _, seed in results})
        failed = {row: str(one["failed"]) for rows in results.values() for row, one in rows.items() if "failed" in one}
        self.left_out = {**left_out, **failed}
        (first, *_) = results.values()
        self.rows = [row for row in first if row not in failed]
        n = len(self.seeds)
        self._weights = np.concatenate([np.full((1, n), 1 / n), (1 - np.eye(n)) / (n - 1)])
        """[1 + seeds, seeds]: of all seeds, and of all but one."""
        self._numbers = {
            row: {world: self._means([results[world, seed][row] for seed in self.seeds]) for world in self.worlds}
            for row in self.rows
        }

    def _means(self, rows: Sequence[Row]) -> Any:
        """[1 + seeds, columns], from a row's numbers by seed."""
        angles = np.array([[*one["angle"].values(), one["angle_of_all"], one["learned"]] for one in rows])
        moments: Any = np.array([[one["moments"][level] for level in LEVELS] for one in rows])
        angles, moments = np.tensordot(self._weights, angles, 1), np.tensordot(self._weights, moments, 1)
        both = errors(np.moveaxis(moments, 2, 0))
        return np.concatenate([angles[:, :3], *both, angles[:, 3:]], axis=1)

    def line(self, row: str, world: str) -> Line:
        """A row's numbers in a world; over `ALL`, the mean over the worlds."""
        columns = self._draws(row, world).T
        return Line(row, world, len(self.seeds), dict(zip(COLUMNS, map(_number, columns), strict=True)))

    def lines(self, world: str) -> list[Line]:
        """All rows in a world, the smallest angle per token first."""
        return sorted((self.line(row, world) for row in self.rows), key=lambda line: line.numbers[COLUMNS[0]].mean)

    def distinct(self) -> list[str]:
        """The rows that compete, one of those whose numbers are all the same."""
        found: dict[tuple[bytes, ...], str] = {}
        for row in self.rows:
            if row != TRUTH:
                found.setdefault(tuple(numbers.tobytes() for numbers in self._numbers[row].values()), row)
        return list(found.values())

    def prediction(self, column: str, world: str) -> Number | None:
        """Spearman's rank correlation, over the distinct rows, of a small number in a column with how much was learnt;
        its interval lies within [-1, 1]. None: fewer than three rows differ."""
        rows = self.distinct()
        if len(rows) < 3:
            return None
        at = [COLUMNS.index(column), COLUMNS.index("learned")]
        draws = np.array([self._draws(row, world)[:, at] for row in rows])
        found = _number(
            np.array(
                [np.corrcoef(_ranks(-small), _ranks(learned))[0, 1] for small, learned in draws.transpose(1, 2, 0)]
            )
        )
        return Number(found.mean, max(found.low, -1.0), min(found.high, 1.0))

    def to_json(self) -> dict[str, Any]:
        places = [*self.worlds, ALL]
        return {
            "seeds": len(self.seeds),
            "size": vars(self.size),
            "worlds": {name: WORLDS[name].about for name in self.worlds},
            "left_out": self.left_out,
            "distinct": self.distinct(),
            "rows": [
                {
                    "row": line.row,
                    "world": world,
                    "n": line.n,
                    **{name: vars(one) for name, one in line.numbers.items()},
                }
                for world in places
                for line in self.lines(world)
            ],
            "predictions": [
                {"by": column, "world": world, **vars(found)}
                for column in PREDICTORS
                for world in places
                if (found := self.prediction(column, world)) is not None
            ],
        }

    def _draws(self, row: str, world: str) -> Any:
        """[1 + seeds, columns]."""
        worlds = self._numbers[row]
        return worlds[world] if world != ALL else np.mean(list(worlds.values()), axis=0)


def markdown(standings: Standings) -> str:
    """The tables."""
    size, worlds = standings.size, [ALL, *standings.worlds]
    parts = [
        "# The league",
        f"{len(standings.seeds)} seeds, each a policy of its own; {size.updates} updates of {size.episodes} episodes "
        f"measured, {size.steps} of the ascent. Brackets: 95 % intervals over the seeds, by Student's t.",
        *(part for world in worlds for part in (f"## {world}", _table(standings, world))),
        "## Does the order predict learning?",
        f"Spearman's rank correlation over the {len(standings.distinct())} rows that differ; 1: the row with the "
        "smallest number learns most.",
        _predictions(standings, worlds),
    ]
    parts += [f"- {row} takes no part: {reason}" for row, reason in standings.left_out.items()]
    return "\n\n".join(parts) + "\n"


def _table(standings: Standings, world: str) -> str:
    cells = [[line.row, str(line.n), *map(str, line.numbers.values())] for line in standings.lines(world)]
    return markdown_table(["row", "n", *COLUMNS], cells)


def _predictions(standings: Standings, worlds: Sequence[str]) -> str:
    cells = [[world, *(str(standings.prediction(one, world) or "") for one in PREDICTORS)] for world in worlds]
    return markdown_table(["world", *PREDICTORS], cells)


def _number(draws: Any) -> Number:
    """From the number of all seeds, and those without one of them."""
    others = draws[1:]
    half = t_quantile(len(others) - 1) * math.sqrt((len(others) - 1) * np.nanvar(others))
    return Number(float(draws[0]), float(draws[0] - half), float(draws[0] + half))


def _ranks(values: Any) -> Any:
    """From 0, tied values at their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts + 1) / 2)[place]
