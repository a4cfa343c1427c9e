"""EpisodeSearch: looks for episodes over all steps of a run, the newest step first, and says how far it is.

Arrow's columns answer for whole steps at once, of which a few are read at the same time; only what they let through is
looked at one by one. Text is found as it is written, in upper or lower case, in messages and answers.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agent_r1_core.errors import RunError
from agent_r1_core.runs.trajectory_file import naming_damage, parquet_file
from agent_r1_viewer.reading.episode_rows import COLUMNS, COUNTED, EpisodeRow, read_columns, rows_of, taken

READERS = 2
"""Files that are read at the same time."""
MOST_HITS = 500
"""The search ends with the step that brings so many."""
_AROUND = 80
"""Characters of a snippet on either side of what was found."""
_RETURN = 1e-9
"""Returns that differ by less are the same."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Filters:
    """What an episode must be like; None: anything."""

    text: str | None = None
    status: str | None = None
    low: float | None = None
    """The least return."""
    high: float | None = None
    tool_error: bool | None = None
    """Whether a tool call was answered with an error."""
    turns_low: int | None = None
    turns_high: int | None = None


@dataclass(frozen=True)
class Hit:
    """An episode that fits."""

    step: int
    episode: EpisodeRow
    snippet: tuple[str, str, str] | None
    """What stands before the text, the text as it is written there, and what follows; None: no text was asked for."""


@dataclass(frozen=True)
class Progress:
    """How far a search is, after every step."""

    step: int
    searched: int
    steps: int
    hits: int
    problem: str | None = None
    """Why the step could not be searched."""


@dataclass(frozen=True)
class End:
    """A search is over."""

    hits: int
    next: int | None
    """The step at which another search may go on; None: there are no more."""


def search(
    files: Sequence[tuple[int, Path]], filters: Filters, check: Callable[[Path], object] = Path
) -> Generator[Hit | Progress | End]:
    """Look through the files of steps in the order in which they are given.

    Args:
        check: is called with every file before it is read, by several threads, and raises a RunError if it must not be.

    Yields:
        The hits of a step in the order of its rows, then how far the search is; at last its end.
    """
    hits = searched = 0

    def beyond() -> int:
        """No step is read to which the search will hardly come."""
        return READERS if searched and hits + READERS * hits / searched < MOST_HITS else 0

    steps = _ahead(lambda file: _step(file[0], file[1], filters, check), files, beyond)
    with contextlib.closing(steps):
        for searched, ((step, _), (found, problem)) in enumerate(zip(files, steps, strict=True), start=1):
            yield from found
            hits += len(found)
            yield Progress(step, searched, len(files), hits, problem)
            if hits >= MOST_HITS and searched < len(files):
                yield End(hits, files[searched][0])
                return
    yield End(hits, None)


def _ahead(read: Callable[[_Item], _Result], items: Iterable[_Item], beyond: Callable[[], int]) -> Generator[_Result]:
    """The results in the order of the items, of which a few beyond the next one are read meanwhile: Arrow reads and
    decompresses without Python's lock. Whoever closes the generator waits for none of them, and no other one begins."""
    pool, waiting = ThreadPoolExecutor(READERS), deque[Future[_Result]]()
    try:
        for item in items:
            waiting.append(pool.submit(read, item))
            while len(waiting) > beyond():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _step(step: int, path: Path, filters: Filters, check: Callable[[Path], object]) -> tuple[list[Hit], str | None]:
    """The hits of a step, and why it could not be searched."""
    try:
        check(path)
        return _hits(step, path, filters), None
    except RunError as error:
        return [], str(error)


def _hits(step: int, path: Path, filters: Filters) -> list[Hit]:
    with naming_damage(path), parquet_file(path) as file:
        rows = _fitting(file, filters)
        snippets: dict[int, tuple[str, str, str] | None] = dict.fromkeys(rows)
        if filters.text:
            snippets = dict(_snippets(file, rows, filters.text)) if rows else {}
        if not snippets:
            return []
        episodes = rows_of(read_columns(file, COLUMNS), list(snippets))
        return [Hit(step, episode, snippets[episode.row]) for episode in episodes]


def _fitting(file: Any, filters: Filters) -> Sequence[int]:
    """The rows that all filters but the text let through."""
    counts = (filters.tool_error, filters.turns_low, filters.turns_high) != (None, None, None)
    if not counts and (filters.status, filters.low, filters.high) == (None, None, None):
        return range(file.metadata.num_rows)
    table = read_columns(file, ["status", "return", *(COUNTED if counts else ())])
    ends = zip(table.column("status").to_pylist(), table.column("return").to_pylist(), strict=True)
    rows = [row for row, end in enumerate(ends) if _end_fits(*end, filters)]
    if counts and rows:
        turns, errors = (table.column(name).to_pylist() for name in COUNTED)
        rows = [row for row in rows if _counts_fit(turns[row], errors[row], filters)]
    return rows


def _end_fits(status: str, total: float, filters: Filters) -> bool:
    high = filters.high is None or total <= filters.high + _RETURN
    low = filters.low is None or total >= filters.low - _RETURN
    return filters.status in (None, status) and low and high


def _counts_fit(turns: int, errors: int, filters: Filters) -> bool:
    enough = filters.turns_low is None or turns >= filters.turns_low
    few = filters.turns_high is None or turns <= filters.turns_high
    return enough and few and filters.tool_error in (None, errors > 0)


def _snippets(file: Any, rows: Sequence[int], text: str) -> Iterator[tuple[int, tuple[str, str, str]]]:
    """The rows that hold the text, with what is around its first place."""
    import pyarrow.compute as pc

    pattern = re.compile(re.escape(text), re.IGNORECASE)
    table = taken(read_columns(file, ["answer", "messages"]), rows)
    # In the column, messages are JSON: characters that it escapes are looked for as it writes them.
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    found: set[int] = set()
    for name, looked_for in (("messages", written), ("answer", text)):
        found.update(
            pc.indices_nonzero(pc.match_substring(table.column(name), looked_for, ignore_case=True)).to_pylist()
        )
    for place in sorted(found):
        answer, messages = table.column("answer")[place].as_py(), json.loads(table.column("messages")[place].as_py())
        for content in (*(message["content"] for message in messages), answer or ""):
            match = pattern.search(content)
            if match:
                start, stop = match.span()
                yield rows[place], (content[max(0, start - _AROUND) : start], match[0], content[stop : stop + _AROUND])
                break
