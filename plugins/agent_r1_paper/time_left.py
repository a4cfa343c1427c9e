"""Predicts how long the cells of a matrix that have not finished will take."""

from __future__ import annotations

from agent_r1_core.errors import AgentR1Error
from agent_r1_paper.cost import cell_seconds
from agent_r1_paper.matrix import Cell, Matrix
from agent_r1_paper.store import Store


class TimeLeft:
    """Judges by the cells that have finished, and by estimates as far as none has that is alike."""

    def __init__(self, matrix: Matrix, store: Store) -> None:
        self._matrix, self._store = matrix, store
        self._estimates: dict[str, float | None] = {}
        """By row; None: its recipe cannot be resolved, as running it will tell."""

    def seconds(self) -> float | None:
        """The time of the cells that have not finished, one after the other; None: nothing tells it.

        A cell takes as long as finished cells of its row; else as finished cells that also train, or also do not; else
        as its estimate, scaled by how far the estimates of finished cells were off.
        """
        cells = self._matrix.cells()
        records = [(cell, self._store.record(cell)) for cell in cells]
        finished = [(cell, record.seconds) for cell, record in records if record is not None]
        total = 0.0
        for cell, record in records:
            if record is not None:
                continue
            alike = [seconds for other, seconds in finished if other.row == cell.row and other.check is None]
            alike = alike or [seconds for other, seconds in finished if other.row.trained == cell.row.trained]
            estimate = sum(alike) / len(alike) if alike else self._corrected(cell, finished)
            if estimate is None:
                return None
            total += estimate
        return total

    def _corrected(self, cell: Cell, finished: list[tuple[Cell, float]]) -> float | None:
        known = [(self._estimate(other), seconds) for other, seconds in finished]
        expected = sum(estimate or 0.0 for estimate, _ in known)
        off = sum(seconds for estimate, seconds in known if estimate) / expected if expected else 1.0
        estimate = self._estimate(cell)
        return None if estimate is None else estimate * off

    def _estimate(self, cell: Cell) -> float | None:
        if cell.row.name not in self._estimates:
            try:
                seconds = cell_seconds(self._matrix, cell, self._matrix.resolve(cell.row))
            except AgentR1Error:
                seconds = None
            self._estimates[cell.row.name] = seconds
        return self._estimates[cell.row.name]
