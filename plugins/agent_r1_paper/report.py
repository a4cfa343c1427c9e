"""Report: a table of the paper beside ours, from the results of the cells that have finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agent_r1_core.metrics.scorers import EXACT_MATCH
from agent_r1_paper.claims import Claim, claims
from agent_r1_paper.lines import Line, read_line
from agent_r1_paper.matrix import Matrix
from agent_r1_paper.store import Store


@dataclass(frozen=True)
class Report:
    """A table with everything that a reader of its scores must know."""

    matrix: Matrix
    lines: list[Line]
    claims: list[Claim]
    """What the paper's table shows, held against ours."""

    @property
    def facts(self) -> list[str]:
        """What holds for the scores, each once."""
        return list(dict.fromkeys(fact for line in self.lines for fact in line.facts))

    def to_json(self) -> dict[str, Any]:
        """Plain data, for the file and `--json`."""
        return {
            "schema": 1,
            "table": self.matrix.table.name,
            "title": self.matrix.table.title,
            "scale": self.matrix.scale.name,
            "seeds": self.matrix.seeds,
            "overrides": list(self.matrix.overrides),
            "metric": EXACT_MATCH,
            "columns": self.matrix.sets,
            "rows": [line.to_json() for line in self.lines],
            "claims": [asdict(claim) for claim in self.claims],
            "facts": self.facts,
        }


def make_report(matrix: Matrix, store: Store, failures: Mapping[str, str]) -> Report:
    """Read what there is of the whole table; `failures` says by cell why one failed.

    Raises:
        RunError: the result of a finished cell is gone or damaged.
    """
    lines = [read_line(matrix, row, store, failures) for row in matrix.table.rows]
    return Report(matrix, lines, claims(matrix, lines))
