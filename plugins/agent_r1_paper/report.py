"""Report: a table of the paper beside ours, from the results of the cells that have finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agent_r1_core.evaluation.arm import Arm
from agent_r1_core.evaluation.intervals import Estimate
from agent_r1_core.evaluation.report import EvaluationResult
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.evaluation.seeds import mean_over_seeds
from agent_r1_core.metrics import declared as metric
from agent_r1_paper.claims import Claim, claims
from agent_r1_paper.matrix import Cell, Matrix
from agent_r1_paper.store import Store
from agent_r1_paper.tables import AVERAGE, COLUMNS, Row

DONE, PARTLY, NOT_RUN, VOID = "done", "partly run", "not run", "void"


@dataclass(frozen=True)
class Line:
    """A row of the report."""

    row: Row
    status: str
    """`done`, `partly run`, `not run` or `void`."""
    note: str
    """Why it is not done."""
    scores: Mapping[str, Estimate] = field(default_factory=dict)
    """Exact match by column of the paper, over the seeds that have finished; a void row has none."""
    by_seed: Mapping[str, list[float]] = field(default_factory=dict)
    """The same, of each seed."""
    arm: Arm | None = None
    """The policy of each seed with its episodes, to compare it with that of another row on the same questions."""
    cells: list[dict[str, Any]] = field(default_factory=list)
    """Each finished cell: its seed, its result's file, how its checkpoint was chosen, what was held out."""

    def gap(self) -> float | None:
        """Our average less the paper's."""
        average = self.scores.get(AVERAGE)
        return None if average is None else average.mean - self.row.paper[AVERAGE]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "row": self.row.name,
            "title": self.row.title,
            "status": self.status,
            "note": self.note,
            "ours": {column: asdict(score) for column, score in self.scores.items()},
            "by_seed": dict(self.by_seed),
            "paper": dict(self.row.paper),
            "gap": self.gap(),
            "cells": self.cells,
        }


@dataclass(frozen=True)
class Report:
    """A table with everything that a reader of its scores must know."""

    matrix: Matrix
    lines: list[Line]
    sets: dict[str, str]
    """Our evaluation set by column of the paper."""
    facts: list[str]
    """Scorer, sampling, corpora, conditions."""

    def line(self, name: str) -> Line | None:
        """The line of a row that has scores."""
        return next((line for line in self.lines if line.row.name == name and line.scores), None)

    def claims(self) -> list[Claim]:
        """What the paper's table shows, held against ours."""
        return claims(self)

    def to_json(self) -> dict[str, Any]:
        """Plain data, for the file and `--json`."""
        return {
            "schema": 1,
            "table": self.matrix.table.name,
            "title": self.matrix.table.title,
            "scale": self.matrix.scale.name,
            "seeds": self.matrix.seeds,
            "overrides": list(self.matrix.overrides),
            "metric": metric.EXACT_MATCH,
            "columns": {column: self.sets.get(column) for column in COLUMNS},
            "rows": [line.to_json() for line in self.lines],
            "claims": [asdict(claim) for claim in self.claims()],
            "facts": self.facts,
        }


def make_report(matrix: Matrix, store: Store, failures: Mapping[str, str], sets: list[str]) -> Report:
    """Read the results of the finished cells.

    Args:
        matrix: the table.
        store: its folder.
        failures: why cells failed, by cell.
        sets: our evaluation sets, in the order of the paper's columns.

    Raises:
        RunError: the result of a finished cell is gone or damaged.
    """
    columns = dict(zip(COLUMNS, sets, strict=True))
    cells = Matrix(matrix.table, matrix.scale, matrix.seeds, matrix.overrides).cells()
    lines, facts = [], dict[str, None]()
    for row in matrix.table.rows:
        own = [cell for cell in cells if cell.row == row and cell.check is None]
        check = next((cell for cell in cells if cell.row == row and cell.check is not None), None)
        line, said = _line(row, own, check, store, failures, columns)
        lines.append(line)
        facts |= dict.fromkeys([*said, *_left_out(row, matrix.seeds, store)])
    return Report(matrix, lines, columns, list(facts))


def _line(
    row: Row,
    cells: list[Cell],
    check: Cell | None,
    store: Store,
    failures: Mapping[str, str],
    columns: Mapping[str, str],
) -> tuple[Line, list[str]]:
    finished = [(cell, record) for cell in cells if (record := store.record(cell)) is not None]
    failed = "; ".join(f"{cell.name}: {failures[cell.name]}" for cell in cells if cell.name in failures)
    missing = ", ".join(cell.name for cell in cells if all(cell is not other for other, _ in finished))
    void = "" if check is None else _void(check, store, failures)
    if not finished:
        return Line(row, NOT_RUN, failed), []
    by_seed: dict[str, list[float]] = {column: [] for column in (*columns, AVERAGE)}
    files: list[ResultFile] = []
    facts, told = [], []
    for cell, record in finished:
        file = store.result(record)
        files.append(file)
        for column, name in columns.items():
            by_seed[column].append(file.recorded.sets[name].metrics[metric.EXACT_MATCH].mean)
        by_seed[AVERAGE].append(file.recorded.metrics[metric.EXACT_MATCH].mean)
        facts += _facts(row, columns, file.recorded)
        told.append({"cell": cell.name, "seed": cell.seed, "file": record.evaluation, **_rests_on(columns, file)})
    if check is not None and not void:
        facts.append(f"{row.title}: {_ability(check, store)}")
    if void:
        return Line(row, VOID, void, cells=told), facts
    status, note = (PARTLY, failed or f"not run: {missing}") if missing else (DONE, "")
    arm = Arm(row.title, files)
    return Line(row, status, note, _scores(arm, columns), by_seed, arm, told), facts


def _scores(arm: Arm, columns: Mapping[str, str]) -> dict[str, Estimate]:
    """Exact match by column, over the seeds and the questions that finished under every seed."""
    values, asked = arm.values(metric.EXACT_MATCH, arm.finished), Counter(name for name, _ in arm.asked)
    scores = {
        column: mean_over_seeds(values[name], proportion=True).out_of(asked[name]) for column, name in columns.items()
    }
    return {**scores, AVERAGE: arm.mean(metric.EXACT_MATCH, arm.finished).out_of(len(arm.asked))}


def _void(check: Cell, store: Store, failures: Mapping[str, str]) -> str:
    """Why a row is void; empty: it is not."""
    record, asked = store.record(check), check.check
    if asked is None or record is None:
        return f"{check.name} has not run, which decides whether the model can play it: {failures.get(check.name, '')}"
    if store.result(record).recorded.metrics[metric.EXACT_MATCH].mean >= asked.least:
        return ""
    return f"the model cannot play this baseline: {_ability(check, store)}"


def _ability(check: Cell, store: Store) -> str:
    """What the model reached where it must show that it can play the baseline; empty: that has not run."""
    record, asked = store.record(check), check.check
    if asked is None or record is None:
        return ""
    score = store.result(record).recorded.metrics[metric.EXACT_MATCH]
    return f"exact match {score} on {score.n} {asked.questions}, and it must reach {asked.least:.2f} there"


def _facts(row: Row, columns: Mapping[str, str], result: EvaluationResult) -> list[str]:
    """What a reader of a result must know, in sentences."""
    lines = [f"{name}: {text}" for name, text in result.scorers.items() if name == metric.EXACT_MATCH]
    sampling = {key: value for key, value in result.sampling.items() if key != "seed"}
    lines.append(f"sampling: {', '.join(f'{key} {value}' for key, value in sampling.items())}")
    lines += [f"{row.title}: {sentence}" for sentence in result.failure_lines()[:1]]
    sets = {name: result.sets[name] for name in columns.values()}
    lines += [f"{name}: {one.provenance['corpus']}" for name, one in sets.items() if "corpus" in one.provenance]
    lines += [f"{row.title}: {condition}" for one in sets.values() for condition in one.conditions]
    if result.choosing_set is not None:
        lines.append(f"checkpoints are chosen on the set {result.choosing_set}, which no column shows")
    return lines


def _left_out(row: Row, seeds: int, store: Store) -> list[str]:
    """Finished seeds beyond those that were asked for: nobody may choose among seeds unseen."""
    more = [f"seed {seed}" for seed in store.seeds(row) if seed >= seeds]
    return [f"{row.title}: the folder also has {', '.join(more)}, not shown here"] if more else []


def _rests_on(columns: Mapping[str, str], file: ResultFile) -> dict[str, Any]:
    """How a cell's checkpoint was chosen, and for each set what was held out."""
    stated = {name: file.recorded.sets[name].provenance for name in columns.values()}
    checkpoints = dict.fromkeys(said["checkpoint"] for said in stated.values() if "checkpoint" in said)
    held_out = {name: said["held_out"] for name, said in stated.items() if "held_out" in said}
    return {"checkpoint": "; ".join(checkpoints), "held_out": held_out}
