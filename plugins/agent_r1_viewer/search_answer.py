"""What the API says while it searches a run's episodes: hits, how far it is, and the end, in this order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_viewer.opened_runs import OpenedRun
from agent_r1_viewer.reading.episode_search import End, Filters, Hit, Progress, search


def search_lines(run: OpenedRun, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """One dictionary a line, each with one of the keys `hit`, `progress`, `problem` and `end`.

    Raises:
        RunError: the query has a value that no filter understands.
    """
    filters, start = _filters(query), _whole(query, "from")
    steps = [step for step in reversed(run.reader.trajectory_steps()) if start is None or step <= start]
    files = [(step, run.reader.trajectory_file(step)) for step in steps]
    return _lines(run, files, filters)


def _lines(run: OpenedRun, files: list[Any], filters: Filters) -> Iterator[dict[str, Any]]:
    for found in search(files, filters, run.summary.check):
        match found:
            case Hit(step, episode, snippet):
                yield {"hit": {"step": step, **episode.to_json(), "snippet": snippet}}
            case Progress(step, searched, steps, hits, problem):
                if problem:
                    yield {"problem": problem}
                yield {"progress": {"searched": searched, "steps": steps, "hits": hits, "step": step}}
            case End(hits, following):
                yield {"end": {"hits": hits, "more": following is not None, "next": following}}


def _filters(query: Mapping[str, str]) -> Filters:
    error = query.get("tool_error") or None
    if error not in (None, "yes", "no"):
        raise RunError(f"tool_error={error} is neither yes nor no; give one of them")
    return Filters(
        text=query.get("text") or None,
        status=query.get("status") or None,
        low=_real(query, "low"),
        high=_real(query, "high"),
        tool_error=None if error is None else error == "yes",
        turns_low=_whole(query, "turns_low"),
        turns_high=_whole(query, "turns_high"),
    )


def _whole(query: Mapping[str, str], name: str) -> int | None:
    number = _real(query, name)
    return None if number is None else int(number)


def _real(query: Mapping[str, str], name: str) -> float | None:
    text = query.get(name) or None
    try:
        number = None if text is None else float(text)
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise RunError(f"{name}={text} is no number; give one, such as {name}=1")
    return number
