"""RunningBatch: rows that generate together; they come and go between steps, and their keys and values outlive a turn.

A row that arrives copies what a row with the same context has read already: the samples of a group share their prompt,
and after equal actions their observations too. Else it brings what its episode's last turn left and reads the new ids.
All its ids but the last are read on arrival; the last is read by the step that samples the next one, so that sampling
has one way through the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_r1_core.errors import EngineError
from agent_r1_transformers.cache import Parked, Parking
from agent_r1_transformers.decoder import Decoder
from agent_r1_transformers.row import Row
from agent_r1_transformers.sampling import choose
from agent_r1_transformers.stops import StopStrings

_CHUNK = 512
"""A long context is read in chunks of this many ids per row."""
_TOKENS = 4096
"""Rows that read together are bounded to about this many ids, padding counted."""
_ROOM = 64
"""Places that an arriving row gets beyond its context at once."""


@dataclass
class Statistics:
    """Tokens by what happened to them, since the engine started."""

    read: int = 0
    """Context ids that went through the model before the step that samples."""
    reused: int = 0
    """Context ids whose keys and values were left by an earlier turn."""
    shared: int = 0
    """Context ids whose keys and values were copied from a row with the same context."""
    sampled: int = 0
    steps: int = 0


class RunningBatch:
    """The rows in flight, in slots without gaps."""

    def __init__(self, decoder: Decoder, stops: StopStrings | None, parking: Parking, total_tokens: int | None) -> None:
        """Begin without rows; `total_tokens` bounds what rows and parking hold together."""
        self._decoder = decoder
        self._stops = stops
        self.parking = parking
        self._total = total_tokens
        self.rows: list[Row] = []
        self.statistics = Statistics()

    def fitting(self, waiting: Iterable[Row]) -> int:
        """How many of the waiting rows, from the first on, fit beside those that run, each grown to its limit. Slots
        are as long as the longest row."""
        count, longest = len(self.rows), max((row.longest for row in self.rows), default=0)
        for fitting, row in enumerate(waiting):
            count, longest = count + 1, max(longest, row.longest)
            if self._total is not None and count * longest > self._total:
                return fitting
        return count - len(self.rows)

    def admit(self, arrivals: Sequence[Row]) -> None:
        """Take rows in and read their contexts; what waits between turns makes room for them."""
        cache = self._decoder.cache
        if cache is None:
            self.rows += arrivals
            for row in arrivals:
                row.fed += row.unread()[:-1]
            return
        first = len(self.rows)
        readers, followers, parked = self._divide(arrivals)
        self.rows += [*readers, *(row for row, _ in followers)]
        if not self.rows:
            return
        cache.reserve(len(self.rows), max(len(row.request.ids) + min(row.limit, _ROOM) for row in self.rows))
        for slot, row in enumerate(readers, first):
            if row in parked:
                cache.put(slot, parked[row].row, len(row.fed))
        self._leave_room_to_rows(self.rows)
        self._read_all(first, readers)
        for slot, (row, source) in enumerate(followers, first + len(readers)):
            row.fed += row.unread()[:-1]
            cache.copy(self.rows.index(source), slot, len(row.fed))
            self.statistics.shared += len(row.fed)

    def _divide(self, arrivals: Sequence[Row]) -> tuple[list[Row], list[tuple[Row, Row]], dict[Row, Parked]]:
        """Rows that read, longest first; rows that copy from another one; and what episodes left (`fed` says how much
        of it still holds)."""
        holders = {row.request.ids: row for row in self.rows}
        readers: list[Row] = []
        followers: list[tuple[Row, Row]] = []
        parked: dict[Row, Parked] = {}
        for row in arrivals:
            left = self.parking.pop(row.request.episode)
            holder = None if row.sampled else holders.get(row.request.ids)
            if holder is not None:
                followers.append((row, holder))
                continue
            if left is not None:
                row.fed += left.ids[: min(_common(left.ids, row.request.ids), len(row.request.ids) - 1)]
                self.statistics.reused += len(row.fed)
                parked[row] = left
            readers.append(row)
            holders.setdefault(row.request.ids, row)
        readers.sort(key=lambda row: -len(row.unread()))
        return readers, followers, parked

    def _read_all(self, first: int, rows: Sequence[Row]) -> None:
        """Read all unread ids but the last, in groups of rows; `rows` lie from slot `first` on, longest first."""
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

    def step(self, version: int) -> None:
        """Sample one id for every row; rows that end are answered and leave."""
        for slot in reversed(range(len(self.rows))):
            if self.rows[slot].future.cancelled():
                self._leave(slot, park=False)
        if not self.rows:
            return
        for row in self.rows:
            row.fed.append(row.next_id)
        logits = self._decoder.next_logits([row.fed for row in self.rows])
        ids, logprobs = choose(logits, [row.request for row in self.rows], [len(row.sampled) for row in self.rows])
        self.statistics.steps += 1
        self.statistics.sampled += len(ids)
        ended: list[tuple[int, Row, str]] = []
        for slot, (row, token, logprob) in enumerate(zip(self.rows, ids, logprobs, strict=True)):
            row.sampled.append(token)
            row.logprobs.append(logprob)
            outcome = self._outcome(row)
            if outcome != "running":
                ended.append((slot, row, outcome))
        # From the last slot down, so that the slots of the others stay; answered at once, so that none is lost between.
        for slot, row, outcome in reversed(ended):
            self._leave(slot, park=outcome != "broken")
            if outcome == "broken":
                row.fail(_broken(row, version))
            else:
                row.succeed("stop" if outcome == "stop" else "length", version)

    def forget(self) -> None:
        """The weights are new: drop what is kept, and read the running rows' contexts again."""
        self.parking.clear()
        rows, self.rows = self.rows, []
        for row in rows:
            row.fed.clear()
        self.admit(rows)

    def _leave_room_to_rows(self, rows: Sequence[Row]) -> None:
        """Bound what waits between turns by what these rows do not need."""
        if self._total is not None:
            self.parking.bound(self._total - len(rows) * max((row.longest for row in rows), default=0))

    def _outcome(self, row: Row) -> str:
        """`running`, `stop`, `length`, or `broken` where the model gave no numbers."""
        if not math.isfinite(row.logprobs[-1]):
            return "broken"
        if row.sampled[-1] in row.stop_ids:
            return "stop"
        strings = row.request.stop_strings
        if strings and self._stops is not None and self._stops.completed(row.sampled, strings):
            return "stop"
        return "length" if len(row.sampled) >= row.limit else "running"

    def _leave(self, slot: int, park: bool) -> None:
        """Take a row out; the last row moves into its slot."""
        row, last = self.rows[slot], len(self.rows) - 1
        self._leave_room_to_rows(self.rows[:slot] + self.rows[slot + 1 :])
        cache = self._decoder.cache
        if cache is not None:
            if not park:
                cache.wipe(slot)
            elif row.request.episode:
                self.parking.keep(row.request.episode, Parked(row.fed, cache.take(slot, len(row.fed))))
            if slot != last:
                cache.copy(last, slot, len(self.rows[last].fed))
        self.rows[slot] = self.rows[last]
        self.rows.pop()


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common prefix."""
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right))


def _broken(row: Row, version: int) -> EngineError:
    return EngineError(
        f"the model gave log-probs that are not finite at token {len(row.fed)} of a context, under weights version "
        f"{version}; the last update diverged, so resume from an earlier checkpoint with a lower learning rate"
    )
