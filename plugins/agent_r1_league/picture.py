"""The standings as a picture, where matplotlib is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from agent_r1_core.runs.files import write_file
from agent_r1_league.levels import LEVELS
from agent_r1_league.standings import ALL, Standings

_COLOURS = ("#2a6f97", "#e07a5f", "#b8b8b8")


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def draw(standings: Standings, path: Path) -> None:
    """Each row's angle to the true gradient over all worlds, at every level; beside it what each learnt by its angle,
    a panel for each world."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = list(reversed(standings.lines(ALL)))
    panels = len(standings.worlds)
    figure = pyplot.figure(figsize=(11, 0.26 * len(lines) + 1.6 + 2.4))
    grid = figure.add_gridspec(2, panels, height_ratios=[0.26 * len(lines) + 0.6, 2.4])
    bars = figure.add_subplot(grid[0, :])
    for shift, (level, colour) in enumerate(zip(LEVELS, _COLOURS, strict=True)):
        found = [line.numbers[f"angle {level}"] for line in lines]
        error = [[max(0.0, one.mean - one.low) for one in found], [max(0.0, one.high - one.mean) for one in found]]
        heights = [height + 0.25 * (1 - shift) for height in range(len(lines))]
        bars.errorbar(
            [one.mean for one in found], heights, xerr=error, fmt="o", ms=3, color=colour, label=f"per {level}"
        )
    bars.set_yticks(range(len(lines)), [line.row for line in lines], fontsize=7)
    bars.set_xlabel("degrees between one update and the true gradient, 95 % intervals", fontsize=8)
    bars.legend(fontsize=7)
    for column, world in enumerate(standings.worlds):
        axis = figure.add_subplot(grid[1, column])
        rows = [standings.line(row, world).numbers for row in standings.rows]
        axis.scatter(
            [one["angle token"].mean for one in rows], [one["learned"].mean for one in rows], s=8, color=_COLOURS[0]
        )
        axis.set_title(world, fontsize=8)
        axis.set_xlabel("angle", fontsize=7)
        axis.tick_params(labelsize=6)
        if column == 0:
            axis.set_ylabel("learned", fontsize=7)
    figure.tight_layout()
    write_file(path, lambda temporary: figure.savefig(temporary, format="png", dpi=110))
    pyplot.close(figure)
