"""Report: a table of the paper beside ours, from the results of the cells that have finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent_r1_core.evaluation.compare import compare
from agent_r1_core.metrics.scorers import EXACT_MATCH
from agent_r1_paper.lines import Line, read_line
from agent_r1_paper.matrix import Matrix
from agent_r1_paper.store import Store
from agent_r1_paper.tables import AVERAGE, COLUMNS, OUT_OF_DOMAIN

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
    return list(_masks(by_name) if matrix.table.name == "table4" else _methods(by_name, matrix.sets))


def _methods(lines: Mapping[str, Line], sets: Mapping[str, str]) -> Iterator[Claim]:
    for base in (lines[name] for name in BASELINES):
        for column in COLUMNS:
            above = "above" if column == OUT_OF_DOMAIN else "clearly above"
            text = f"every method {above} {base.row.title} on {column} (ours: {sets[column]})"
            yield _of_every_method(text, lines, base, column, _above)
    text = f"the weakest method at least {LEAST_RATIO} times Naive RAG on average"
    yield _of_every_method(text, lines, lines["naive_rag"], AVERAGE, _many_times)


def _masks(lines: Mapping[str, Line]) -> Iterator[Claim]:
    pairs = (
        ("ppo", "ppo-no_advantage_mask"),
        ("ppo-no_advantage_mask", "ppo-no_masks"),
        ("grpo", "grpo-no_loss_mask"),
    )
    for better, worse in ((lines[first], lines[second]) for first, second in pairs):
        text = f"{better.row.title} clearly above {worse.row.title} on average"
        if better.arm is None or worse.arm is None:
            yield Claim(text, None, "one of them has not run")
            continue
        difference = compare([better.arm, worse.arm], EXACT_MATCH).differences[0]
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
