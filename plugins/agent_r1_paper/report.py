"""Report: a table of the paper beside ours, from the results of the cells that have finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from agent_r1_core.evaluation.arm import Arm
from agent_r1_core.evaluation.compare import compare
from agent_r1_core.evaluation.report import EvaluationResult
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.evaluation.seeds import mean_over_seeds
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_paper.matrix import Cell, Matrix
from agent_r1_paper.store import Store
from agent_r1_paper.tables import AVERAGE, COLUMNS, OUT_OF_DOMAIN, Row, Table

DONE, PARTLY, NOT_RUN, VOID = "done", "partly run", "not run", "void"


@dataclass
class Line:
    """A row of the report."""

    row: Row
    status: str = NOT_RUN
    """`done`, `partly run`, `not run` or `void`."""
    note: str = ""
    """Why it is not done."""
    scores: dict[str, Estimate] = field(default_factory=dict)
    """Exact match by column of the paper, over the seeds that have finished; a void row has none."""
    by_seed: dict[str, list[float]] = field(default_factory=dict)
    """The same, of each seed."""
    arm: Arm | None = None
    """The policy of each seed with its episodes, to compare it with that of another row on the same questions."""
    cells: list[dict[str, Any]] = field(default_factory=list)
    """Each finished cell: its seed, its result's file, how its checkpoint was chosen, what was held out."""
    facts: list[str] = field(default_factory=list)
    """What a reader of the scores must know: scorer, sampling, corpora, conditions."""

    def gap(self) -> float | None:
        """Our average less the paper's."""
        average, theirs = self.scores.get(AVERAGE), self.row.paper.get(AVERAGE)
        return None if average is None or theirs is None else average.mean - theirs

    def to_json(self) -> dict[str, Any]:
        return {
            "row": self.row.name,
            "title": self.row.title,
            "status": self.status,
            "note": self.note,
            "ours": {column: asdict(score) for column, score in self.scores.items()},
            "by_seed": self.by_seed,
            "paper": dict(self.row.paper),
            "gap": self.gap(),
            "cells": self.cells,
        }


def read_line(matrix: Matrix, row: Row, store: Store, failures: Mapping[str, str]) -> Line:
    """Read the results of a row's finished cells; `failures` says by cell why one has none.

    Raises:
        RunError: the result of a finished cell is gone or damaged.
    """
    line = Line(row)
    cells = [cell for cell in matrix.all_cells() if cell.row == row]
    check = next((cell for cell in cells if cell.check is not None), None)
    files: list[ResultFile] = []
    missing: list[Cell] = []
    for cell in cells:
        if cell is check:
            continue
        record = store.record(cell)
        if record is None:
            missing.append(cell)
            continue
        file = store.result(record)
        files.append(file)
        line.cells.append({"cell": cell.name, "seed": cell.seed, "file": record.evaluation, **_rests_on(matrix, file)})
        line.facts += _facts(row, matrix, file.recorded)
    failed = "; ".join(f"{cell.name}: {failures[cell.name]}" for cell in missing if cell.name in failures)
    if not files:
        line.note = failed
    elif check is not None and (why := _not_playable(check, store, failures, line.facts)):
        line.status, line.note = VOID, why
    else:
        line.status = PARTLY if missing else DONE
        line.note = failed or (f"not run: {', '.join(cell.name for cell in missing)}" if missing else "")
        line.arm = Arm(row.title, files, frozenset({matrix.table.metric}))
        line.scores, line.by_seed = _scores(line.arm, matrix), _by_seed(files, matrix)
    # Nobody may choose among seeds unseen.
    if more := [f"seed {seed}" for seed in store.seeds(row) if seed >= matrix.seeds]:
        line.facts.append(f"{row.title}: the folder also has {', '.join(more)}, not shown here")
    return line


def _scores(arm: Arm, matrix: Matrix) -> dict[str, Estimate]:
    """The table's metric by column, over the seeds and the questions that finished under every seed."""
    metric = matrix.table.metric
    values, asked = arm.values(metric, arm.finished), Counter(name for name, _ in arm.asked[0])
    scores = {
        column: mean_over_seeds(values[name], proportion=True).out_of(asked[name])
        for column, name in matrix.sets.items()
    }
    return {**scores, AVERAGE: arm.mean(metric, arm.finished).out_of(len(arm.asked[0]))}


def _by_seed(files: list[ResultFile], matrix: Matrix) -> dict[str, list[float]]:
    wholes = [file.recorded for file in files]
    parts = {column: [whole.sets[name] for whole in wholes] for column, name in matrix.sets.items()}
    results = {**parts, AVERAGE: wholes}
    return {column: [one.metrics[matrix.table.metric].mean for one in found] for column, found in results.items()}


def _not_playable(cell: Cell, store: Store, failures: Mapping[str, str], facts: list[str]) -> str:
    """Why a row is void; empty: it is not, and `facts` says what the model reached where it had to show that."""
    record, check = store.record(cell), cell.check
    if check is None or record is None:
        return f"{cell.name} has not run, which decides whether the model can play it: {failures.get(cell.name, '')}"
    score = store.result(record).recorded.metrics["exact_match"]
    reached = f"exact match {score} on {score.n} {check.questions}, and it must reach {check.least:.2f} there"
    if score.mean < check.least:
        return f"the model cannot play this baseline: {reached}"
    facts.append(f"{cell.row.title}: {reached}")
    return ""


def _facts(row: Row, matrix: Matrix, result: EvaluationResult) -> list[str]:
    """What a reader of a result must know, in sentences."""
    lines = [f"{name}: {text}" for name, text in result.scorers.items() if name == matrix.table.metric]
    sampling = {key: value for key, value in result.sampling.items() if key != "seed"}
    lines.append(f"sampling: {', '.join(f'{key} {value}' for key, value in sampling.items())}")
    lines += [f"{row.title}: {sentence}" for sentence in result.failure_lines()[:1]]
    shown = {name: result.sets[name] for name in matrix.sets.values()}
    lines += [f"{name}: {one.provenance['corpus']}" for name, one in shown.items() if "corpus" in one.provenance]
    lines += [f"{row.title}: {condition}" for one in shown.values() for condition in one.conditions]
    if result.choosing_set is not None:
        lines.append(f"checkpoints are chosen on the set {result.choosing_set}, which no column shows")
    return lines


def _rests_on(matrix: Matrix, file: ResultFile) -> dict[str, Any]:
    """How a cell's checkpoint was chosen, and for each set what was held out."""
    stated = {name: file.recorded.sets[name].provenance for name in matrix.sets.values()}
    checkpoints = dict.fromkeys(said["checkpoint"] for said in stated.values() if "checkpoint" in said)
    held_out = {name: said["held_out"] for name, said in stated.items() if "held_out" in said}
    return {"checkpoint": "; ".join(checkpoints), "held_out": held_out}


BASELINES = ("base_tool_call", "naive_rag")
LEAST_RATIO = 2.5
"""In the paper the weakest method's average is 2.5 times that of Naive RAG."""


@dataclass(frozen=True)
class Claim:
    """A statement about a table."""

    text: str
    holds: bool | None
    """None: rows that it needs have not run, or are void."""
    why: str
    """The numbers, or what is missing."""

    def sentence(self) -> str:
        """The claim with its verdict."""
        verdict = {True: "shows", False: "does not show", None: "open"}[self.holds]
        return f"{verdict}: {self.text} ({self.why})"


def claims(matrix: Matrix, lines: Sequence[Line]) -> list[Claim]:
    """What the paper's table shows, held against ours by fixed rules: it shows here, it does not, or it is open."""
    by_name = {line.row.name: line for line in lines}
    return list(_pairs(by_name, matrix.table) if matrix.table.pairs else _methods(by_name, matrix.sets))


def _methods(lines: Mapping[str, Line], sets: Mapping[str, str]) -> Iterator[Claim]:
    for base in (lines[name] for name in BASELINES):
        for column in COLUMNS:
            above = "above" if column == OUT_OF_DOMAIN else "clearly above"
            text = f"every method {above} {base.row.title} on {column} (ours: {sets[column]})"
            yield _of_every_method(text, lines, base, column, _above)
    text = f"the weakest method at least {LEAST_RATIO} times Naive RAG on average"
    yield _of_every_method(text, lines, lines["naive_rag"], AVERAGE, _many_times)


def _pairs(lines: Mapping[str, Line], table: Table) -> Iterator[Claim]:
    for better, worse in ((lines[first], lines[second]) for first, second in table.pairs):
        text = f"{better.row.title} clearly above {worse.row.title} on {table.shown[-1]}"
        if better.arm is None or worse.arm is None:
            yield Claim(text, None, "one of them has not run")
            continue
        difference = compare([better.arm, worse.arm], table.metric).differences[0]
        holds = difference.low is not None and difference.low > 0
        _, mean, interval, p, *_ = difference.row()
        yield Claim(text, holds, f"{mean} {interval}, p {p if p.startswith('<') else f'= {p}'}, on the same questions")


Rule = Callable[[Line, Line, str], tuple[bool, str]]
"""Whether a claim about the weakest method, a baseline and a column holds, and its numbers."""


def _of_every_method(text: str, lines: Mapping[str, Line], base: Line, column: str, rule: Rule) -> Claim:
    """A claim that fails with the weakest method has failed; it holds only if every method has run."""
    methods = [line for line in lines.values() if line.row.trained]
    scored = [line for line in methods if line.scores]
    missing = [line.row.title for line in methods if not line.scores]
    if not base.scores or not scored:
        return Claim(text, None, "no method has run" if base.scores else f"{base.row.title} has no scores")
    holds, why = rule(min(scored, key=lambda line: line.scores[column].mean), base, column)
    if holds and missing:
        return Claim(text, None, f"{why}; not run: {', '.join(missing)}")
    return Claim(text, holds, why)


def _above(weakest: Line, base: Line, column: str) -> tuple[bool, str]:
    """Whether it scores more; on what the methods trained on, with intervals that do not touch."""
    ours, theirs = weakest.scores[column], base.scores[column]
    why = f"weakest: {weakest.row.title} {ours}; {base.row.title} {theirs}"
    if column == OUT_OF_DOMAIN:
        return ours.mean > theirs.mean, why
    return ours.low is not None and theirs.high is not None and ours.low > theirs.high, why


def _many_times(weakest: Line, base: Line, column: str) -> tuple[bool, str]:
    ours, theirs = weakest.scores[column].mean, base.scores[column].mean
    ratio = f"{ours / theirs:.1f} times" if theirs else f"{base.row.title} scores 0"
    return ours >= LEAST_RATIO * theirs and ours > 0, f"{weakest.row.title} {ours:.3f}, {ratio}"


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
            "metric": self.matrix.table.metric,
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
