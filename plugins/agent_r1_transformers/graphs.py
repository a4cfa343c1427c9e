"""Decoding steps as CUDA graphs: recorded for a number of rows and a span, and played again by one launch.

A step of few rows launches some forty kernels a layer, which takes a CPU several times as long as computing them takes
a GPU. A graph reads and writes the memory that it was recorded with, so that a cache that moves voids all graphs; and
its sizes are fixed, so rows and spans are rounded up until few graphs serve all.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from agent_r1_core.errors import first_line

logger = logging.getLogger(__name__)

Compute = Callable[[Tensor], Tensor]
Recorder = Callable[[Compute, Tensor, Tensor, bool], Compute]
"""From a function, what it is given, where its result is to go, and whether no graph is left of those recorded before:
what does the same, with other numbers given."""

_MOST = 128
"""Graphs that are kept; beyond that the one that was not played for longest goes."""
_SPAN = 64
"""Spans are multiples of it."""
_RECORDING = threading.Lock()
"""One engine at a time records."""
_NEAR = 1e-3
"""Largest ||difference|| / ||result|| between a graph and what it was recorded from; both launch the same kernels."""


def rounded_rows(rows: int) -> int:
    """1, 2, 3, 4, 6, 8, 12, 16, 24, ...: the next of two sizes in each power of two."""
    return _rounded(rows, 2, 1)


def rounded_span(span: int) -> int:
    """The next of four sizes in each power of two, in multiples of 64."""
    return _rounded(span, 4, _SPAN)


def _rounded(number: int, parts: int, least: int) -> int:
    step = max((1 << (max(number, 2) - 1).bit_length() - 1) // parts, least)
    return -(-number // step) * step


class Graphs:
    """Graphs of one function, by the sizes that they were recorded for. The second call with some sizes records: the
    first has made what a recording must find. A graph whose first result is another one than the function's is not
    used, and neither are others from then on; the function may be called again with what it was given.

    Args:
        record: makes a graph; None: one of CUDA.
    """

    def __init__(self, record: Recorder | None = None) -> None:
        self._record: Recorder | None = record or _CudaGraphs()
        self._graphs: OrderedDict[tuple[int, ...], Compute | None] = OrderedDict()
        self._moves = 0
        self._out: Tensor | None = None

    def run(self, key: tuple[int, ...], moves: int, given: Tensor, compute: Compute) -> Tensor:
        """`compute(given)`, which the next call may overwrite.

        Args:
            key: all sizes.
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

    def _keep(self, key: tuple[int, ...], graph: Compute | None) -> None:
        self._graphs[key] = graph
        if len(self._graphs) > _MOST:
            self._graphs.popitem(last=False)

    def _recorded(self, record: Recorder, given: Tensor, compute: Compute) -> Compute:
        """All graphs share the memory of their result, since each is read before the next one plays."""
        expected = compute(given)
        if self._out is None or len(self._out) < len(given):
            self._out = torch.empty_like(expected)
        graph = record(compute, given, self._out[: len(given)], not any(self._graphs.values()))
        if not (graph(given) - expected).float().norm() <= _NEAR * expected.float().norm():  # also where it is NaN
            raise RuntimeError("a recorded step gave other logits than the step itself")
        return graph


class _CudaGraphs:
    """They share a pool of memory, for which it matters that they play one after the other. It ends with its last
    graph."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._stream: Any = None

    def __call__(self, compute: Compute, given: Tensor, out: Tensor, first: bool) -> Compute:
        if first:
            self._pool, self._stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
        given, graph, own = given.clone(), torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        # Other threads, the learner's for one, go on meanwhile.
        capture = torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local")
        try:
            with _RECORDING, capture:
                out.copy_(compute(given))
        finally:
            torch.cuda.set_stream(own)  # where a capture cannot begin or end, torch stays on its stream

        def play(now: Tensor) -> Tensor:
            given.copy_(now)
            graph.replay()
            return out

        return play
