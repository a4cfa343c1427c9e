"""Decoding steps as CUDA graphs: recorded for a number of rows, and a span where it matters, and played by one launch.

A step of few rows launches a dozen kernels a layer, some forty where all are torch's, which takes a CPU several times
as long as computing them takes a GPU. A graph reads and writes the memory that it was recorded with, so that a cache
that moves voids all graphs; and its sizes are fixed, so rows and spans are rounded up until few graphs serve all.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from agent_r1_core.errors import first_line

logger = logging.getLogger(__name__)

Results = tuple[Tensor, ...]
Compute = Callable[[Tensor], Results]
Recorder = Callable[[Compute, Tensor, Results, bool], Compute]
"""From a function, what it is given, where its results are to go, and whether no graph is left of those recorded
before: what does the same, with other numbers given."""

_MOST = 128
"""Graphs that are kept; beyond that the one that was not played for longest goes."""
_SPAN = 64
"""Spans are multiples of it."""
_RECORDING = threading.Lock()
"""One engine at a time records."""
_NEAR = 1e-3
"""Largest ||difference|| / ||result|| between a graph and what it was recorded from; both launch the same kernels."""


def rounded_rows(rows: int) -> int:
    """2, 3, 4, 6, 8, 12, 16, 24, ...: the next of two sizes in each power of two. A single row counts as two, since
    torch compiles anew for a size of 1."""
    return _rounded(max(rows, 2), 2, 1)


def rounded_span(span: int) -> int:
    """The next of four sizes in each power of two, in multiples of 64."""
    return _rounded(span, 4, _SPAN)


def _rounded(number: int, parts: int, least: int) -> int:
    step = max((1 << (max(number, 2) - 1).bit_length() - 1) // parts, least)
    return -(-number // step) * step


class Graphs:
    """Graphs of one function, by the sizes that they were recorded for. The second call with some sizes records: the
    first has made what a recording must find. A graph is compared with the function by the first result of its first
    play; where it differs it is not used, and neither are others from then on. The function may be called again with
    what it was given.

    Args:
        record: makes a graph; None: one of CUDA.
    """

    def __init__(self, record: Recorder | None = None) -> None:
        self._record: Recorder | None = record or _CudaGraphs()
        self._graphs: OrderedDict[Hashable, Compute | None] = OrderedDict()
        self._moves = 0
        self._out = dict[tuple[int, ...], Tensor]()

    def run(self, key: Hashable, moves: int, given: Tensor, compute: Compute) -> Results:
        """`compute(given)`, which the next call may overwrite.

        Args:
            key: all sizes, and what else makes it another function.
            moves: how often what it reads and writes moved to other memory; then all graphs are void.
        """
        if moves != self._moves:
            self._graphs.clear()
            self._moves = moves
        if self._record is None:
            return compute(given)
        if key not in self._graphs:
            self._keep(key, None)
            return compute(given)
        graph = self._graphs.pop(key)
        if graph is None:
            try:
                graph = self._recorded(self._record, given, compute)
            except RuntimeError as error:
                logger.warning("decoding goes on without CUDA graphs: %s", first_line(error))
                self._graphs.clear()
                self._record = None
                return compute(given)
        self._keep(key, graph)
        return graph(given)

    def _keep(self, key: Hashable, graph: Compute | None) -> None:
        self._graphs[key] = graph
        if len(self._graphs) > _MOST:
            self._graphs.popitem(last=False)

    def _recorded(self, record: Recorder, given: Tensor, compute: Compute) -> Compute:
        expected = compute(given)
        graph = record(compute, given, tuple(map(self._place, expected)), not any(self._graphs.values()))
        own, first = graph(given)[0], expected[0]
        if not (own - first).float().norm() <= _NEAR * first.float().norm():  # also where it is NaN
            raise RuntimeError("a recorded step gave other logits than the step itself")
        return graph

    def _place(self, result: Tensor) -> Tensor:
        """All graphs share the memory of their results, since each is read before the next one plays."""
        rows, form = result.shape[0], tuple(result.shape[1:])
        if form not in self._out or len(self._out[form]) < rows:
            self._out[form] = torch.empty_like(result)
        return self._out[form][:rows]


class _CudaGraphs:
    """They share a pool of memory, for which it matters that they play one after the other. It ends with its last
    graph."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._stream: Any = None

    def __call__(self, compute: Compute, given: Tensor, out: Results, first: bool) -> Compute:
        if first:
            self._pool, self._stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
        given, graph, own = given.clone(), torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        # Other threads, the learner's for one, go on meanwhile.
        capture = torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local")
        try:
            with _RECORDING, capture:
                for place, result in zip(out, compute(given), strict=True):
                    place.copy_(result)
        finally:
            torch.cuda.set_stream(own)  # where a capture cannot begin or end, torch stays on its stream

        def play(now: Tensor) -> Results:
            given.copy_(now)
            graph.replay()
            return out

        return play
