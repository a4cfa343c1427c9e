"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from agent_r1_cli.output import markdown_table
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_paper.report import NOT_RUN, VOID, Line, Report
from agent_r1_paper.tables import AVERAGE, OUT_OF_DOMAIN


def markdown(report: Report) -> str:
    matrix, (header, *lines) = report.matrix, table(report)
    changed = f", with {' '.join(matrix.overrides)}" if matrix.overrides else ""
    parts = [
        f"# {matrix.table.title}",
        f"Scale {matrix.scale.name}: {matrix.scale.about}; {matrix.seeds} seed{'s' * (matrix.seeds > 1)}{changed}. "
        f"{matrix.table.source}",
        markdown_table(header, lines),
        "`gap` is our average less the paper's. " * (AVERAGE in matrix.table.shown) + "Brackets: 95 % intervals.",
        "## What shows, and what does not",
        *_listed([claim.sentence() for claim in report.claims]),
        *_remarks(report),
        *(["## How it was measured", *_listed(report.facts)] if report.facts else []),
        *_runs(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(report: Report) -> list[list[str]]:
    """The table as texts, the header first: for each column of the paper its number and ours."""
    header, shown = ["method"], report.matrix.table.shown
    for column in shown:
        where = ", out of domain" if column == OUT_OF_DOMAIN else ""
        header += [f"{column} (paper)", f"{report.matrix.sets.get(column, column)} (ours{where})"]
    gap = ["gap"] * (AVERAGE in shown)
    return [[*header, *gap, "runs"], *(_row(line, shown) for line in report.lines)]


def _row(line: Line, shown: Sequence[str]) -> list[str]:
    texts = [line.row.title]
    for column in shown:
        paper = line.row.paper.get(column)
        texts += ["" if paper is None else f"{paper:.4f}", _ours(line, line.scores.get(column))]
    if AVERAGE in shown:
        gap = line.gap()
        texts.append("" if gap is None else f"{gap:+.3f}")
    return [*texts, str(len(line.cells))]


def _ours(line: Line, score: Estimate | None) -> str:
    if score is None:
        return line.status if line.status in (VOID, NOT_RUN) else ""
    return f"{score} (n = {score.count})" if score.asked is not None else f"{score}"


def _remarks(report: Report) -> list[str]:
    remarks = [f"{line.row.title}: {line.status}. {line.note}".rstrip(". ") for line in report.lines if line.note]
    return ["## Rows that are not complete", *_listed(remarks)] if remarks else []


def _runs(report: Report) -> list[str]:
    """How each cell's checkpoint was chosen, and what was held out of its training."""
    cells = [cell for line in report.lines for cell in line.cells if cell["checkpoint"]]
    lines = []
    for cell in cells:
        said: dict[str, list[str]] = {}
        for name, sentence in cell["held_out"].items():
            said.setdefault(sentence, []).append(name)
        held_out = "; ".join(f"{', '.join(names)}: {sentence}" for sentence, names in said.items())
        lines.append(f"{cell['cell']}: {cell['checkpoint']}. Held out: {held_out}")
    return ["## Runs", *_listed(lines)] if lines else []


def _listed(lines: list[str]) -> list[str]:
    return ["\n".join(f"- {line}" for line in lines)]
