"""Finds rows with a common prefix: the samples of a group share their prompt, all tasks their system prompt and tools.

A tree of blocks of ids. A row is in the node of each whole block of its context and in a last one for the rest, so
equal contexts end in the same node. The last id of a context does not count: the step that samples reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_r1_transformers.row import Row

_BLOCK = 16
"""Ids per block; rows that differ within a block share only what is before it."""


@dataclass
class _Node:
    """Rows whose contexts begin with the same `length` ids."""

    length: int
    below: dict[tuple[int, ...], _Node] = field(default_factory=dict)
    rows: dict[Row, None] = field(default_factory=dict)


class Prefixes:
    """The contexts of the rows in slots."""

    def __init__(self) -> None:
        self._root = _Node(0)

    def add(self, row: Row) -> None:
        """Add a row."""
        node = self._root
        for block in _blocks(row.request.ids):
            node = node.below.setdefault(block, _Node(node.length + len(block)))
            node.rows[row] = None

    def remove(self, row: Row) -> None:
        """Remove a row."""
        node = self._root
        for block in _blocks(row.request.ids):
            parent, node = node, node.below[block]
            del node.rows[row]
            if not node.rows:
                del parent.below[block]
                return

    def find(self, ids: tuple[int, ...]) -> tuple[Row | None, int]:
        """The row that shares the longest prefix with a context, and the prefix's length in ids."""
        node = self._root
        for block in _blocks(ids):
            if block not in node.below:
                break
            node = node.below[block]
        return next(iter(node.rows), None), node.length

    def trunk(self) -> int:
        """How many ids all rows have in common, in whole blocks."""
        node = self._root
        total = sum(len(child.rows) for child in node.below.values())
        while len(node.below) == 1:
            (child,) = node.below.values()
            if len(child.rows) < total:
                break
            node = child
        return node.length


def _blocks(ids: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for start in range(0, len(ids) - 1, _BLOCK):
        yield ids[start : min(start + _BLOCK, len(ids) - 1)]
