"""Curves of metrics over the steps of one run, or of several over one another, for notebooks and terminals."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from agent_r1_core.errors import RunError
from agent_r1_core.metrics import declared as metric
from agent_r1_core.runs.reading.evaluation_scores import RecordedEvaluations
from agent_r1_core.terminal import span_text, sparkline
from agent_r1_viewer.notebook.inline import Inline, ids_of

if TYPE_CHECKING:
    from agent_r1_core.runs.run_reader import RunReader

_CHART, _LEGEND, _AROUND = 250, 40, 90
"""Pixels of a row of charts, of the names of several runs, and of what stands above and below."""
_PER_ROW = 2
_WIDTH = 40
"""Columns of a curve in text."""
_SIMILAR = 3


def curves(runs: Sequence[RunReader], names: Sequence[str]) -> Inline:
    """The curves of these metrics, or of the mean reward if none is named.

    Raises:
        RunError: no run has a metric of this name, or a file is damaged.
    """
    names = names or (metric.REWARD_MEAN,)
    recorded = [_recorded(run) for run in runs]
    known = sorted({name for one in recorded for name in one})
    for name in names:
        if name not in known:
            raise RunError(_unknown(name, known, runs))
    paths = tuple(run.path for run in runs)
    asked = {"runs": ",".join(quote(one, safe="") for one in ids_of(paths)), "metrics": ",".join(names)}
    height = _AROUND + _CHART * math.ceil(len(names) / _PER_ROW) + _LEGEND * (len(runs) > 1)
    return Inline(_text(runs, recorded, names), paths, f"#/plot?{urlencode(asked)}", height)


def _recorded(run: RunReader) -> dict[str, dict[int, float]]:
    """By metric, the values by step; of evaluations also those before the first step."""
    found: dict[str, dict[int, float]] = {}
    evaluations, _ = RecordedEvaluations(run.path / "evaluations").all()
    for one in evaluations:
        for group, scores in one.sets.items() if one.step is not None else ():
            for score, estimate in scores.items():
                found.setdefault(metric.evaluated(score, group), {})[int(one.step or 0)] = estimate.mean
    for line in run.metrics():
        for name, value in line.items():
            if name != "step":
                found.setdefault(name, {})[line["step"]] = float(value)
    return found


def _unknown(name: str, known: Sequence[str], runs: Sequence[RunReader]) -> str:
    which = f"run {runs[0].name}" if len(runs) == 1 else f"none of the runs {', '.join(run.name for run in runs)}"
    if not known:
        trains = any(run.state().kind == "training" for run in runs)
        hope = "no step yet; plot it when it has" if trains else "no step; choose one that has some"
        return f"{which} has recorded {hope}"
    near = difflib.get_close_matches(name, known, n=_SIMILAR, cutoff=0.5) or [
        other for other in known if name.lower() in other.lower()
    ]
    hint = f"near it are {', '.join(near[:_SIMILAR])}" if near else "run.metrics()[-1] names all"
    return f"{which} has no metric {name!r}; {hint}" if len(runs) == 1 else f"{which} has a metric {name!r}; {hint}"


def _text(runs: Sequence[RunReader], recorded: Sequence[dict[str, dict[int, float]]], names: Sequence[str]) -> str:
    """A line for each metric of each run: its curve, its range, and where it ended."""
    rows = []
    for name in names:
        for run, one in zip(runs, recorded, strict=True):
            points = sorted(one.get(name, {}).items())
            label = name if len(runs) == 1 else f"{name}  {run.name}"
            rows.append((label, _row(points)))
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label.ljust(width)}  {row}" for label, row in rows)


def _row(points: Sequence[tuple[int, float]]) -> str:
    if not points:
        return "not recorded"
    values = [value for _, value in points]
    last, value = points[-1]
    span = span_text(values)
    ended = f"{value:.3g} in step {last}"
    return "  ".join(filter(None, (sparkline(values, _WIDTH), span and f"{span}, {ended}")))
