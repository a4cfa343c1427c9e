"""RunningBatch: rows that generate together; they come and go between steps, and their keys and values outlive a turn.

A new row copies the longest prefix that another row has read: the samples of a group share their prompt, and after
equal actions their observations too; all tasks share system prompt and tools. If its episode's last turn left more,
it takes that instead. It reads the rest.
All its ids but the last are read on admission; the step that samples the next id reads the last one, so that sampling
always takes the same path through the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from agent_r1_core import Generation
from agent_r1_core.engines.sampling import draws
from agent_r1_transformers.cache import Parked, Parking, RowCache
from agent_r1_transformers.decoder import Decoder
from agent_r1_transformers.prefixes import Prefixes
from agent_r1_transformers.row import Row

_CHUNK = 512
"""Ids per row that are read at once; longer contexts are read in chunks."""
_TOKENS = 4096
"""About the most ids that rows read together, padding included."""
_ROOM = 64
"""Places beyond its context that a new row gets at first."""
_WORTH = 32
"""Ids that a row must save to make it wait for another new row."""


@dataclass
class Statistics:
    """Counts of tokens since the engine started."""

    read: int = 0
    """Context ids that went through the model before the step that samples."""
    reused: int = 0
    """Context ids whose keys and values were left by an earlier turn."""
    shared: int = 0
    """Context ids whose keys and values were copied from a row with the same prefix."""
    sampled: int = 0
    steps: int = 0


@dataclass(frozen=True)
class _Entry:
    """How a row enters the batch."""

    row: Row
    start: int
    """Number of first ids that it need not read."""
    parked: Parked | None
    """What its episode's last turn left, if the row starts from that."""
    source: Row | None
    """The row that it copies those ids from, if any."""
    wave: int
    """How many rounds of reading come before its own."""


class RunningBatch:
    """The rows in flight, in slots without gaps."""

    def __init__(self, decoder: Decoder, stops: StopStrings | None, parking: Parking, total_tokens: int | None) -> None:
        """Begin without rows; `total_tokens` limits what rows and parking hold together."""
        self._decoder = decoder
        self._stops = stops
        self.parking = parking
        self._total = total_tokens
        self._prefixes = Prefixes()
        self.rows: list[Row] = []
        self.statistics = Statistics()
        self.version = 0
        """Version of the weights."""

    def fitting(self, waiting: Iterable[Row]) -> int:
        """How many of the first waiting rows fit next to the running ones if all grow to their limits. Slots are as
        long as the longest row."""
        count, longest = len(self.rows), max((row.longest for row in self.rows), default=0)
        for fitting, row in enumerate(waiting):
            count, longest = count + 1, max(longest, row.longest)
            if self._total is not None and count * longest > self._total:
                return fitting
        return count - len(self.rows)

    def admit(self, arrivals: Sequence[Row]) -> None:
        """Add rows and read their contexts; parked rows make room for them."""
        cache = self._decoder.cache
        if cache is None:
            self.rows += arrivals
            for row in arrivals:
                row.fed += row.unread()[:-1]
            return
        first = len(self.rows)
        entries = self._entries(arrivals)
        self.rows += [entry.row for entry in entries]
        if not self.rows:
            return
        cache.reserve(len(self.rows), max(len(row.request.ids) + min(row.limit, _ROOM) for row in self.rows))
        self._leave_room_to_rows(self.rows)
        slots = {row: slot for slot, row in enumerate(self.rows)}
        for _, wave in groupby(entries, lambda entry: entry.wave):
            together = list(wave)
            for entry in together:
                self._begin(cache, entry, slots)
            self._read_all(first, [entry.row for entry in together])
            first += len(together)

    def _entries(self, arrivals: Sequence[Row]) -> list[_Entry]:
        """Where each new row starts to read, in the order of reading: a row that copies from another new one comes in a
        later wave, and within a wave rows with more to read come first."""
        entries: dict[Row, _Entry] = {}
        for row in arrivals:
            ids, parked = row.request.ids, self.parking.pop(row.request.episode)
            kept = 0 if parked is None else min(_common_length(parked.ids, ids), len(ids) - 1)
            source, length = self._prefixes.find(ids)
            together = source in entries and length < len(ids) - 1
            if source is None or length - kept < (_WORTH if together else 1):
                entries[row] = _Entry(row, kept, parked, None, 0)
            else:
                wave = entries[source].wave + 1 if source in entries else 0
                entries[row] = _Entry(row, length, None, source, wave)
            self._prefixes.add(row)
        return sorted(entries.values(), key=lambda entry: (entry.wave, entry.start - len(entry.row.unread())))

    def _begin(self, cache: RowCache, entry: _Entry, slots: dict[Row, int]) -> None:
        """Give a row the part of its context that has already been read."""
        row = entry.row
        if entry.source is not None:
            row.fed += entry.source.fed[: entry.start]
            cache.copy(slots[entry.source], slots[row], entry.start)
            self.statistics.shared += entry.start
        elif entry.parked is not None:
            row.fed += entry.parked.ids[: entry.start]
            cache.put(slots[row], entry.parked.row, entry.start)
            self.statistics.reused += entry.start

    def _read_all(self, first: int, rows: Sequence[Row]) -> None:
        """Read all unread ids but the last, in groups of rows; `rows` fill the slots from `first` on, longest first."""
        start = 0
        while start < len(rows) and len(rows[start].unread()) > 1:
            width = min(len(rows[start].unread()) - 1, _CHUNK)
            stop = start + max(1, _TOKENS // width)
            self._read_together(first + start, rows[start:stop])
            start = stop

    def _read_together(self, first: int, rows: Sequence[Row]) -> None:
        while chunks := [chunk for row in rows if (chunk := row.unread()[:-1][:_CHUNK])]:
            rows = rows[: len(chunks)]
            self._decoder.read(first, [len(row.fed) for row in rows], chunks)
            for row, chunk in zip(rows, chunks, strict=True):
                row.fed += chunk
                self.statistics.read += len(chunk)

    def step(self) -> list[tuple[int, Generation]]:
        """Sample one id for every row; remove the rows that end, and return their results by key."""
        for row in self.rows:
            row.fed.append(row.next_id)
        how = draws([row.request for row in self.rows], [len(row.sampled) for row in self.rows])
        ids, logprobs = self._decoder.sample([row.fed for row in self.rows], how, self._prefixes.trunk())
        self.statistics.steps += 1
        self.statistics.sampled += len(ids)
        ended: list[tuple[int, Row, str]] = []
        for slot, (row, token, logprob) in enumerate(zip(self.rows, ids, logprobs, strict=True)):
            row.sampled.append(token)
            row.logprobs.append(logprob)
            outcome = self._outcome(row)
            if outcome != "running":
                ended.append((slot, row, outcome))
        for slot, _, outcome in reversed(ended):  # from the last slot down, so that the other slots stay valid
            self._remove(slot, park=outcome != "broken")
        return [
            (row.key, row.generation("length" if outcome == "length" else "stop", self.version))
            for _, row, outcome in ended
        ]

    def drop(self, key: int) -> None:
        """Remove a running row whose caller was cancelled."""
        self._remove(next(slot for slot, row in enumerate(self.rows) if row.key == key), park=False)

    def renew(self, version: int) -> None:
        """After a change of weights: drop all caches and read the running rows' contexts again."""
        self._decoder.renew()
        self.parking.clear()
        rows, self.rows = self.rows, []
        self._prefixes = Prefixes()
        for row in rows:
            row.close_run(self.version)
            row.fed.clear()
        self.version = version
        self.admit(rows)

    def _leave_room_to_rows(self, rows: Sequence[Row]) -> None:
        """Limit the parked rows to the room that these rows do not need."""
        if self._total is not None:
            self.parking.bound(self._total - len(rows) * max((row.longest for row in rows), default=0))

    def _outcome(self, row: Row) -> str:
        """`running`, `stop`, `length`, or `broken` if the model gave a log-prob that is not finite, which the worker
        reports; such a row ends at once and leaves no keys and values."""
        if not math.isfinite(row.logprobs[-1]):
            return "broken"
        if row.sampled[-1] in row.stop_ids:
            return "stop"
        strings = row.request.stop_strings
        if strings and self._stops is not None and self._stops.completed(row.sampled, strings):
            return "stop"
        return "length" if len(row.sampled) >= row.limit else "running"

    def _remove(self, slot: int, park: bool) -> None:
        """Remove a row; the last row moves into its slot."""
        row, last = self.rows[slot], len(self.rows) - 1
        self._leave_room_to_rows(self.rows[:slot] + self.rows[slot + 1 :])
        cache = self._decoder.cache
        if cache is not None:
            self._prefixes.remove(row)
            if not park:
                cache.wipe(slot)
            elif row.request.episode:
                self.parking.keep(row.request.episode, Parked(row.fed, cache.take(slot, len(row.fed))))
            if slot != last:
                cache.copy(last, slot, len(self.rows[last].fed))
        self.rows[slot] = self.rows[last]
        self.rows.pop()


class StopStrings:
    """Finds the id that completes a stop string; the whole token is kept.

    Decoding the whole text after every id would be quadratic. So a table comes first: only an id whose own text holds
    the last character of a stop string can complete it. Ids that decode to part of a character, or that a decoder may
    strip, are always candidates.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._pieces: dict[int, str] = {}

    def completed(self, ids: Sequence[int], strings: Sequence[str]) -> bool:
        """Whether the decoded text of `ids` contains one of the strings; without the last id it must contain none."""
        if not any(self._may_end(ids[-1], string) for string in strings):
            return False
        text = self._tokenizer.decode(list(ids))
        return any(string in text for string in strings)

    def _may_end(self, last: int, string: str) -> bool:
        piece = self._pieces.get(last)
        if piece is None:
            piece = self._pieces[last] = self._tokenizer.decode([last])
        return string[-1] in piece or string[-1].isspace() or "�" in piece or not piece


def _common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common prefix."""
    for place, (left_id, right_id) in enumerate(zip(left, right, strict=False)):
        if left_id != right_id:
            return place
    return min(len(left), len(right))
