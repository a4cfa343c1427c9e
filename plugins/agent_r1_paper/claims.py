"""What the paper's tables show, held against ours by fixed rules: it shows here, it does not, or it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_r1_core.evaluation.compare import compare
from agent_r1_core.metrics import declared as metric
from agent_r1_paper.tables import AVERAGE, COLUMNS, OUT_OF_DOMAIN

if TYPE_CHECKING:
    from agent_r1_paper.report import Line, Report

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


def claims(report: Report) -> list[Claim]:
    """The claims about the report's table."""
    return list(_CLAIMS[report.matrix.table.name](report))


def _methods(report: Report) -> Iterator[Claim]:
    trained = [line for line in report.lines if line.row.trained and line.scores]
    missing = [line.row.title for line in report.lines if line.row.trained and not line.scores]
    for name in BASELINES:
        base = report.line(name)
        title = next(line.row.title for line in report.lines if line.row.name == name)
        for column in COLUMNS:
            of = f"{column} (ours: {report.sets[column]})"
            clearly = "above" if column == OUT_OF_DOMAIN else "clearly above"
            text = f"every method {clearly} {title} on {of}"
            if base is None or not trained:
                yield Claim(text, None, f"{title} has no scores" if base is None else "no method has run")
                continue
            weakest = min(trained, key=lambda line: line.scores[column].mean)
            ours, theirs = weakest.scores[column], base.scores[column]
            holds = ours.mean > theirs.mean if column == OUT_OF_DOMAIN else _clearly_above(weakest, base, column)
            yield _claim(text, holds, f"weakest: {weakest.row.title} {ours}; {title} {theirs}", missing)
    rag, text = report.line("naive_rag"), f"the weakest method at least {LEAST_RATIO} times Naive RAG on average"
    if rag is None or not trained:
        yield Claim(text, None, "Naive RAG has no scores" if rag is None else "no method has run")
        return
    weakest = min(trained, key=lambda line: line.scores[AVERAGE].mean)
    average, least = weakest.scores[AVERAGE].mean, rag.scores[AVERAGE].mean
    ratio = f"{average / least:.1f} times" if least else "Naive RAG scores 0"
    yield _claim(
        text, average >= LEAST_RATIO * least and average > 0, f"{weakest.row.title} {average:.3f}, {ratio}", missing
    )


def _masks(report: Report) -> Iterator[Claim]:
    pairs = (
        ("ppo", "ppo-no_advantage_mask"),
        ("ppo-no_advantage_mask", "ppo-no_masks"),
        ("grpo", "grpo-no_loss_mask"),
    )
    titles = {line.row.name: line.row.title for line in report.lines}
    for better, worse in pairs:
        text = f"{titles[better]} clearly above {titles[worse]} on average"
        first, second = report.line(better), report.line(worse)
        if first is None or second is None or first.arm is None or second.arm is None:
            yield Claim(text, None, "one of them has not run")
            continue
        difference = compare([first.arm, second.arm], metric.EXACT_MATCH).differences[0]
        holds = difference.low is not None and difference.low > 0
        _, mean, interval, p, *_ = difference.row()
        yield Claim(text, holds, f"{mean} {interval}, p {p if p.startswith('<') else f'= {p}'}, on the same questions")


_CLAIMS: dict[str, Callable[[Report], Iterator[Claim]]] = {"table3": _methods, "table4": _masks}


def _claim(text: str, holds: bool, why: str, missing: list[str]) -> Claim:
    """A claim about every method holds only if every method has run; one that fails has failed."""
    if holds and missing:
        return Claim(text, None, f"{why}; not run: {', '.join(missing)}")
    return Claim(text, holds, why)


def _clearly_above(line: Line, base: Line, column: str) -> bool:
    """Whether the intervals do not touch."""
    low, high = line.scores[column].low, base.scores[column].high
    return low is not None and high is not None and low > high
