"""Micro-batches: whole trajectories, packed into one row without padding, within a budget of tokens.

Sequences that begin alike form a prefix tree: the samples of a group share their prompt, and often first actions and
observations too; a segment that another one extends is a part of it. A causal model gives a token one hidden state per
prefix, so each is computed once. A trajectory longer than the budget gets a micro-batch of its own: it is never cut.

Several ranks get whole groups, so that prefixes stay shared, the costliest first to the rank with the least so far:
with fewer groups than ranks some ranks have nothing to do, and one large group sets the pace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy
import torch
from torch import Tensor

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.ranks import Ranks

Ids = numpy.ndarray


@dataclass(frozen=True)
class Span:
    """A run of tokens that no sequence leaves half-way."""

    length: int
    above: tuple[int, ...]
    """Numbers of the spans that precede it in every sequence, from the first id on."""


@dataclass(frozen=True)
class Tree:
    """Tokens to compute, span after span."""

    ids: Tensor
    """long [tokens]."""
    positions: Tensor
    """long [tokens]: place within its sequence, from 0."""
    spans: tuple[Span, ...]


@dataclass
class _Node:
    """A span under construction, and the spans that go on from its end, by their first id."""

    ids: Ids
    below: dict[int, _Node] = field(default_factory=dict)
    number: int = -1
    offset: int = 0
    """Of its first token among all computed ones."""


class PrefixForest:
    """Collects sequences; those under the same key share prefixes.

    Args:
        share: False: every sequence stands alone.
    """

    def __init__(self, share: bool = True) -> None:
        self._share = share
        self._roots: dict[int, _Node] = {}
        self._added: list[tuple[int, Ids]] = []
        self.tokens = 0
        """Tokens to compute so far."""

    def cost(self, sequences: Sequence[Sequence[int]], key: int) -> int:
        """Upper bound on the extra tokens to compute for these sequences; ignores what they share with each other."""
        return sum(len(ids) - self._shared(numpy.asarray(ids), key) for ids in sequences)

    def add(self, ids: Sequence[int], key: int) -> None:
        """Add a sequence that is not empty."""
        sequence = numpy.asarray(ids, dtype=numpy.int64)
        key = key if self._share else len(self._added)
        self._added.append((key, sequence))
        node = self._roots.setdefault(key, _Node(sequence[:0]))
        while len(sequence):
            child = node.below.get(int(sequence[0]))
            if child is None:
                node.below[int(sequence[0])] = _Node(sequence)
                self.tokens += len(sequence)
                return
            common = _common(child.ids, sequence)
            if common < len(child.ids):
                _split(child, common)
            node, sequence = child, sequence[common:]

    def build(self) -> tuple[Tree, Tensor]:
        """The tokens to compute, and where each token of the added sequences, end to end, is among them."""
        spans: list[Span] = []
        ids, positions = [numpy.zeros(0, numpy.int64)], [numpy.zeros(0, numpy.int64)]
        offset = 0
        for root in self._roots.values():
            for node, above, depth in _walk(root):
                node.number, node.offset = len(spans), offset
                spans.append(Span(len(node.ids), tuple(one.number for one in above)))
                ids.append(node.ids)
                positions.append(numpy.arange(depth, depth + len(node.ids)))
                offset += len(node.ids)
        places = [
            numpy.arange(n.offset, n.offset + len(n.ids)) for key, seq in self._added for n in self._path(key, seq)
        ]
        tree = Tree(_tensor(ids), _tensor(positions), tuple(spans))
        return tree, _tensor([numpy.zeros(0, numpy.int64), *places])

    def _path(self, key: int, sequence: Ids) -> Iterator[_Node]:
        """The nodes of an added sequence."""
        node, start = self._roots[key], 0
        while start < len(sequence):
            node = node.below[int(sequence[start])]
            start += len(node.ids)
            yield node

    def _shared(self, sequence: Ids, key: int) -> int:
        """How many of its first ids are there already and need no second pass."""
        node, start = self._roots.get(key) if self._share else None, 0
        while node is not None and start < len(sequence):
            node = node.below.get(int(sequence[start]))
            if node is not None:
                common = _common(node.ids, sequence[start:])
                start += common
                if common < len(node.ids):
                    break
        return start


@dataclass(frozen=True)
class Packed:
    """Trajectories end to end."""

    rows: Tensor
    """long [m]: their rows in the batch."""
    ids: Tensor
    """long [tokens]."""
    valid: Tensor
    """bool [m, T]: the rows' tokens; true entries in row-major order are the packed tokens."""
    place: Tensor
    """long [tokens]: where the tree computes each token."""
    tree: Tree
    """What a decoder computes: every token once per prefix."""

    def take(self, values: Tensor, chosen: Tensor) -> Tensor:
        """Flat numbers [k] of a [n, T] tensor of the batch at the chosen packed tokens."""
        return values[self.rows][self.valid][chosen]

    def put(self, padded: Tensor, at: Tensor, values: Tensor) -> None:
        """Write numbers of the packed tokens `at`, [k], to their places in a [n, T] tensor on the CPU; what it holds of
        the rows' other tokens becomes 0."""
        flat = torch.zeros(self.ids.shape[0])
        flat[at] = values.float().cpu()
        rows = torch.zeros(self.valid.shape)
        rows[self.valid] = flat
        padded[self.rows] = rows


def passes(batch: Batch, rows: Iterable[int], max_tokens: int, share: bool, ranks: Ranks) -> Iterator[Packed]:
    """This rank's micro-batches of the rows, and idle ones after them until every rank has had as many."""
    if ranks.size == 1:
        yield from micro_batches(batch, rows, max_tokens, share)
        return
    own = list(micro_batches(batch, deal(batch, rows, share, ranks.size)[ranks.rank], max_tokens, share))
    most = ranks.most(len(own))
    yield from own
    for _ in range(most - len(own)):
        yield idle(batch)


def deal(batch: Batch, rows: Iterable[int], share: bool, size: int) -> list[list[int]]:
    """The rows of each of `size` ranks, by computed tokens."""
    groups: dict[int, list[int]] = {}
    for row in rows:
        groups.setdefault(int(batch.group[row]), []).append(row)
    costs = {group: _forest(batch, members, share).tokens for group, members in groups.items()}
    hands: list[list[int]] = [[] for _ in range(size)]
    loads = [0] * size
    for group in sorted(groups, key=lambda group: (-costs[group], group)):
        least = loads.index(min(loads))
        hands[least] += groups[group]
        loads[least] += costs[group]
    return hands


def pack(batch: Batch, rows: Sequence[int], share: bool = True) -> Packed:
    """Put trajectories end to end, in the order of `rows`; with `share`, tokens of equal prefixes within a group are
    computed once."""
    return _packed(_forest(batch, rows, share), batch, rows)


def micro_batches(batch: Batch, rows: Iterable[int], max_tokens: int, share: bool = True) -> Iterator[Packed]:
    """Cut rows, those of a group together, into runs of at most `max_tokens` computed tokens; a longer trajectory
    stands alone."""
    forest, taken = PrefixForest(share), list[int]()
    for row in sorted(rows, key=lambda row: int(batch.group[row])):
        group, sequences = int(batch.group[row]), _segments(batch, row)
        if taken and forest.tokens + forest.cost(sequences, group) > max_tokens:
            yield _packed(forest, batch, taken)
            forest, taken = PrefixForest(share), []
        for ids in sequences:
            forest.add(ids, group)
        taken.append(row)
    if taken:
        yield _packed(forest, batch, taken)


def idle(batch: Batch) -> Packed:
    """A micro-batch of no trajectory over a tree of one token: a pass of it costs next to nothing and adds nothing to a
    gradient."""
    nothing = torch.zeros(0, dtype=torch.long)
    token = torch.zeros(1, dtype=torch.long)
    return Packed(nothing, nothing, batch.valid[:0], nothing, Tree(token, token, (Span(1, ()),)))


def _packed(forest: PrefixForest, batch: Batch, rows: Sequence[int]) -> Packed:
    index = torch.tensor(rows, dtype=torch.long)
    valid = batch.valid[index]
    tree, place = forest.build()
    return Packed(index, batch.ids[index][valid], valid, place, tree)


def _forest(batch: Batch, rows: Iterable[int], share: bool) -> PrefixForest:
    """The sequences of these rows; those of a group share prefixes."""
    forest = PrefixForest(share)
    for row in rows:
        for ids in _segments(batch, row):
            forest.add(ids, int(batch.group[row]))
    return forest


def _segments(batch: Batch, row: int) -> list[list[int]]:
    return [segment.ids for segment in batch.trajectories[row].segments if segment.ids]


def _split(node: _Node, at: int) -> None:
    """Cut a node in two: it keeps its first `at` ids."""
    rest = _Node(node.ids[at:], node.below)
    node.ids, node.below = node.ids[:at], {int(rest.ids[0]): rest}


def _walk(root: _Node) -> Iterator[tuple[_Node, tuple[_Node, ...], int]]:
    """Every node below the root with the nodes above it and the number of ids in them; parents come first."""
    waiting: list[tuple[_Node, tuple[_Node, ...], int]] = [(root, (), 0)]
    while waiting:
        node, above, depth = waiting.pop()
        if node is not root:
            yield node, above, depth
            above = (*above, node)
        children = [(child, above, depth + len(node.ids)) for child in node.below.values()]
        waiting += reversed(children)


def _common(left: Ids, right: Ids) -> int:
    """Length of the common prefix."""
    length = min(len(left), len(right))
    differ = numpy.flatnonzero(left[:length] != right[:length])
    return int(differ[0]) if len(differ) else length


def _tensor(parts: Sequence[Ids]) -> Tensor:
    return torch.from_numpy(numpy.concatenate(parts))
