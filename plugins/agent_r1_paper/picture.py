"""The report as a picture, where matplotlib is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from agent_r1_core.runs.files import write_file
from agent_r1_paper.report import Report

_OURS, _PAPER = "#2a6f97", "#b8b8b8"


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def draw(report: Report, path: Path) -> None:
    """Bars of every row with 95 % intervals, one panel per column; the paper's number is behind ours in grey."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines, sets = list(reversed(report.lines)), report.matrix.sets
    panels = report.matrix.table.shown
    size = (3 * max(2, len(panels)), 0.5 * len(lines) + 1.4)
    figure, [axes] = pyplot.subplots(1, len(panels), sharey=True, figsize=size, squeeze=False)
    for axis, column in zip(axes, panels, strict=True):
        for height, line in enumerate(lines):
            paper, ours = line.row.paper.get(column), line.scores.get(column)
            if paper is not None:
                axis.barh(height + 0.2, paper, 0.38, color=_PAPER)
            if ours is None:
                axis.text(0.01, height - 0.2, line.status, va="center", fontsize=7)
                continue
            low, high = (ours.mean if limit is None else limit for limit in (ours.low, ours.high))
            error = [[max(0.0, ours.mean - low)], [max(0.0, high - ours.mean)]]
            axis.barh(height - 0.2, ours.mean, 0.38, color=_OURS, xerr=error, error_kw={"lw": 1})
        axis.set_title(f"{column}\nours: {sets[column]}" if column in sets else column, fontsize=9)
        axis.set_xlim(0, 1)
    axes[0].set_yticks(range(len(lines)), [line.row.title for line in lines], fontsize=8)
    bars = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in (_PAPER, _OURS)]
    figure.legend(bars, ["paper", f"ours ({report.matrix.scale.name})"], loc="upper right", ncols=2, fontsize=8)
    figure.suptitle(report.matrix.table.metric.replace("_", " "), fontsize=10)
    figure.tight_layout()
    write_file(path, lambda temporary: figure.savefig(temporary, format="png", dpi=110))
    pyplot.close(figure)
