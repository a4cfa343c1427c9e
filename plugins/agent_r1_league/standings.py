"""The standings: every row's numbers over the seeds, with intervals, and whether their order predicts learning."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent_r1_core.evaluation.intervals import bootstrap
from agent_r1_league.contest import Row, Size
from agent_r1_league.entrants import TRUTH
from agent_r1_league.levels import LEVELS
from agent_r1_league.worlds import WORLDS

ALL = "all worlds"
COLUMNS = (
    *(f"{number} {level}" for number in ("angle", "bias2", "variance") for level in LEVELS),
    "angle_of_all",
    "learned",
)
PREDICTORS = ("angle token", "angle_of_all", "bias2 token", "variance token")
_RESAMPLES = 1000


@dataclass(frozen=True)
class Number:
    """A mean over seeds with its 95 % interval."""

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
        self._numbers = {
            row: {world: np.array([_flat(results[world, seed][row]) for seed in self.seeds]) for world in self.worlds}
            for row in self.rows
        }

    def line(self, row: str, world: str) -> Line:
        """A row's numbers in a world; over `ALL`, the mean over the worlds of each seed."""
        columns = self._seeds(row, world).T.tolist()
        return Line(
            row, world, len(self.seeds), {name: _number(values) for name, values in zip(COLUMNS, columns, strict=True)}
        )

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
        its interval is a bootstrap over seeds. None: fewer than three rows differ."""
        rows = self.distinct()
        if len(rows) < 3:
            return None
        both = np.array([self._seeds(row, world)[:, [COLUMNS.index(column), COLUMNS.index("learned")]] for row in rows])

        def correlation(picks: Any) -> float:
            predicted, learned = both[:, picks].mean(1).T
            return float(np.corrcoef(_ranks(-predicted), _ranks(learned))[0, 1])

        generator, n = np.random.default_rng(0), len(self.seeds)
        drawn = [correlation(generator.integers(0, n, n)) for _ in range(_RESAMPLES)]
        low, high = np.nanquantile(drawn, [0.025, 0.975])
        return Number(correlation(np.arange(n)), float(low), float(high))

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

    def _seeds(self, row: str, world: str) -> Any:
        """[seeds, columns]."""
        worlds = self._numbers[row]
        return worlds[world] if world != ALL else np.mean(list(worlds.values()), axis=0)


def markdown(standings: Standings) -> str:
    """The tables."""
    size, worlds = standings.size, [ALL, *standings.worlds]
    parts = [
        "# The league",
        f"{len(standings.seeds)} seeds, each a policy of its own; {size.updates} updates of {size.episodes} episodes "
        f"measured, {size.steps} of the ascent. Brackets: 95 % intervals over the seeds.",
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
    return _rows(["row", "n", *COLUMNS], cells)


def _predictions(standings: Standings, worlds: Sequence[str]) -> str:
    cells = [[world, *(str(standings.prediction(one, world) or "") for one in PREDICTORS)] for world in worlds]
    return _rows(["world", *PREDICTORS], cells)


def _rows(header: list[str], cells: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *cells))


def _flat(row: Row) -> list[float]:
    levels = [row[number][level] for number in ("angle", "bias2", "variance") for level in LEVELS]
    return [*levels, row["angle_of_all"], row["learned"]]


def _number(values: list[float]) -> Number:
    return Number(statistics.fmean(values), *bootstrap(values))


def _ranks(values: Any) -> Any:
    """From 0, tied values at their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts + 1) / 2)[place]
