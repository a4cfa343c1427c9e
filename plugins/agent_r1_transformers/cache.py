"""Keys and values of running rows, each row with a length of its own, and of rows that wait for their next turn.

A running row b holds its tokens at places 0 .. length-1 of slot b. Later places are stale: attention must exclude them.
Running rows fill the slots 0 .. n-1 without gaps, so that one slice serves the whole batch.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

_PLACES = 64
"""The cache grows in multiples of this many tokens."""


@dataclass(frozen=True)
class LayerShape:
    """What one layer keeps per token."""

    heads: int
    key_width: int
    value_width: int


Held = list[Tensor]
"""Keys and values of one row in all layers, as the cache holds them: [parts, heads, tokens, width] each."""


class RowCache:
    """Slots for running rows, which grow on demand. Keys and values of equal shape, from any layer, share a tensor
    [parts, slots, heads, places, width], so that one copy moves a row."""

    def __init__(self, shapes: list[LayerShape], dtype: torch.dtype, device: torch.device) -> None:
        forms = [
            form for shape in shapes for form in ((shape.heads, shape.key_width), (shape.heads, shape.value_width))
        ]
        kinds = sorted(set(forms))
        counts = dict.fromkeys(kinds, 0)
        self._homes: list[tuple[int, int]] = []
        """For the keys and the values of each layer: the tensor, and the part of it."""
        for form in forms:
            self._homes.append((kinds.index(form), counts[form]))
            counts[form] += 1
        empty = torch.empty(0, dtype=dtype, device=device)
        self._held = [empty.view(counts[form], 0, form[0], 0, form[1]) for form in kinds]
        self.places = 0
        self._slots = 0
        self.moves = 0
        """How often its numbers moved to other memory."""
        self._window = slice(0, 0)
        self._index = self._positions = torch.empty(0, dtype=torch.long, device=device)
        self._span = 0

    @property
    def span(self) -> int:
        """Most places in use by a row of the last `place`."""
        return self._span

    def wipe(self, slot: int) -> None:
        """Zero a slot: values that are not finite would reach later rows even outside the mask (0 times NaN)."""
        for held in self._held:
            held[:, slot] = 0

    def reserve(self, slots: int, places: int) -> None:
        """Make room for `slots` rows of `places` tokens; keeps the contents."""
        if slots <= self._slots and places <= self.places:
            return
        slots = max(slots, self._slots * 5 // 4) if slots > self._slots else self._slots
        grown = -(-max(places, self.places * 5 // 4) // _PLACES) * _PLACES
        places = grown if places > self.places else self.places
        for number, old in enumerate(self._held):
            new = old.new_zeros(old.shape[0], slots, old.shape[2], places, old.shape[4])
            new[:, : old.shape[1], :, : old.shape[3]] = old
            self._held[number] = new
        self._slots, self.places = slots, places
        self.moves += 1

    def affordable_tokens(self) -> int:
        """Number of tokens that fit in a quarter of the memory that is now free on the cache's device."""
        first = self._held[0]
        per_token = sum(held.shape[0] * held.shape[2] * held.shape[4] for held in self._held)
        return max(1, free_memory(first.device) // 4 // (per_token * first.element_size()))

    def place(self, first: int, positions: Tensor, span: int) -> None:
        """Set where the next `write` of every layer goes.

        Args:
            first: the slot of the first row.
            positions: [rows, new tokens], the place of each new token.
            span: most places in use by a row, new ones included.
        """
        self._window = slice(first, first + positions.shape[0])
        self._index = torch.arange(positions.shape[0], device=positions.device)[:, None]
        self._positions = positions
        self._span = span

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values [rows, heads, new tokens, width]; returns all places in use, as views."""
        return self._write(2 * layer, keys), self._write(2 * layer + 1, values)

    def slots(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values [rows, heads, places, width] of the rows of the last `place`, as views of all places."""
        return self._slots_of(2 * layer), self._slots_of(2 * layer + 1)

    def _slots_of(self, number: int) -> Tensor:
        kind, part = self._homes[number]
        return self._held[kind][part, self._window]

    def _write(self, number: int, new: Tensor) -> Tensor:
        held = self._slots_of(number)
        held[self._index, :, self._positions] = new.transpose(1, 2)
        return held[:, :, : self._span]

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copy the first `tokens` places of one slot to another."""
        for held in self._held:
            held[:, target, :, :tokens] = held[:, source, :, :tokens]

    def take(self, slot: int, tokens: int) -> Held:
        """A copy of the first `tokens` places of a slot."""
        return [held[:, slot, :, :tokens].clone() for held in self._held]

    def put(self, slot: int, row: Held, tokens: int) -> None:
        """Write the first `tokens` places of a row taken before."""
        for held, taken in zip(self._held, row, strict=True):
            held[:, slot, :, :tokens] = taken[:, :, :tokens]


def free_memory(device: torch.device) -> int:
    """Bytes of free memory on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    with suppress(OSError), open("/proc/meminfo") as lines:
        available = next((line for line in lines if line.startswith("MemAvailable:")), None)
        if available is not None:
            return int(available.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Parked:
    """A row between two turns of its episode."""

    ids: list[int]
    """Ids whose keys and values are held, in order."""
    row: Held


class Parking:
    """Rows that wait for the next turn of their episode; beyond its limits it drops the least recently used first."""

    def __init__(self, max_rows: int, max_tokens: int | None) -> None:
        self._max_rows = max_rows
        self._max_tokens = max_tokens
        self._rows: OrderedDict[str, Parked] = OrderedDict()
        self._room: int | None = None
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, episode: object) -> bool:
        return episode in self._rows

    def keep(self, episode: str, parked: Parked) -> None:
        """Keep a row for its episode; replaces an older one."""
        self.pop(episode)
        if self._max_tokens is not None and len(parked.ids) > self._max_tokens:
            return
        self._rows[episode] = parked
        self.tokens += len(parked.ids)
        self._drop()

    def bound(self, tokens: int) -> None:
        """Hold at most `tokens` tokens until the next call, within the other limits."""
        self._room = tokens
        self._drop()

    def _drop(self) -> None:
        bounds = [bound for bound in (self._max_tokens, self._room) if bound is not None]
        while self._rows and (len(self._rows) > self._max_rows or self.tokens > min(bounds, default=self.tokens)):
            self.pop(next(iter(self._rows)))

    def pop(self, episode: str) -> Parked | None:
        """Remove and return an episode's row, if there is one."""
        parked = self._rows.pop(episode, None)
        if parked is not None:
            self.tokens -= len(parked.ids)
        return parked

    def clear(self) -> None:
        """Drop everything."""
        self._rows.clear()
        self.tokens = 0
