"""The thread that owns the model: admits requests between steps, steps all rows at once, answers each at its end.

Everything that touches the model runs in this one thread, so nothing needs a lock but the inbox. It takes torch's
thread setting as it finds it. In deterministic mode jobs run one after the other, each batch to its end, so that the
shapes of all computations depend on the requests alone (LAW 11).
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from agent_r1_core import Request
from agent_r1_core.contracts.engine import EngineModel, Generation
from agent_r1_core.errors import AgentR1Error, EngineError
from agent_r1_transformers.batch import RunningBatch
from agent_r1_transformers.cache import Parking
from agent_r1_transformers.choice import choose_decoder
from agent_r1_transformers.row import Row
from agent_r1_transformers.stops import StopStrings
from agent_r1_transformers.weights import copy_weights, load_model, vocabulary_size

if TYPE_CHECKING:
    from agent_r1_transformers.batch import Statistics


@dataclass(frozen=True)
class Limits:
    """What a request has to keep to."""

    vocabulary: int
    positions: int | None
    """Ids that a context may have in all, the generated ones included; None: no bound."""
    total_tokens: int | None
    """Tokens that the cache may hold; None: there is no cache."""


@dataclass(frozen=True)
class _Admit:
    rows: list[Row]


@dataclass(frozen=True)
class _Call:
    action: Callable[[], object]
    future: Future[object]


class Worker:
    """Runs the model in a daemon thread of its own."""

    def __init__(self, model: EngineModel, max_rows: int, cache_tokens: int | None, total: int | None) -> None:
        self._model = model
        self._max_rows = max_rows
        self._cache_tokens = cache_tokens
        self._total = total
        self._inbox: deque[_Admit | _Call] = deque()
        self._news = threading.Condition()
        self._stopped: EngineError | None = None
        self._closing = False
        self._waiting: deque[Row] = deque()
        self._version = 0
        self.started: Future[Limits] = Future()
        """Resolved when the model is loaded."""
        self._thread = threading.Thread(target=self._run, name="agent-r1-transformers", daemon=True)
        self._thread.start()
        # A thread that is inside torch while the interpreter goes down aborts the process: stop it before.
        atexit.register(self.close)

    # Called from outside.

    def submit(self, requests: Sequence[Request], limits: Sequence[int]) -> list[Future[Generation]]:
        """Queue requests together, in this order.

        Raises:
            EngineError: the worker has stopped.
        """
        rows = [Row(request, Future(), limit) for request, limit in zip(requests, limits, strict=True)]
        self._post(_Admit(rows))
        return [row.future for row in rows]

    def release(self, episode: str) -> None:
        """Drop what is kept for an episode; a stopped worker keeps nothing."""
        with suppress(EngineError):
            self._post(_Call(lambda: self._batch.parking.pop(episode), Future()))

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> Future[object]:
        """Copy new weights between two steps; running rows read their contexts again."""
        future: Future[object] = Future()
        self._post(_Call(lambda: self._load_weights(weights, version), future))
        return future

    @property
    def statistics(self) -> Statistics:
        """Counts since the start."""
        return self._batch.statistics

    def close(self) -> None:
        """Stop after the step that is running; what waits or runs fails. Returns when the thread has ended."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join()
        atexit.unregister(self.close)

    def _post(self, item: _Admit | _Call) -> None:
        with self._news:
            if self._stopped is not None:
                raise self._stopped
            self._inbox.append(item)
            self._news.notify()

    # The thread.

    def _run(self) -> None:
        try:
            with torch.inference_mode():
                self._start()
                while self._take_news():
                    self._step()
            self._stop(EngineError("the transformers engine is closed; start it again to generate"))
        except BaseException as error:
            self._stop(_stopped_by(error))

    def _start(self) -> None:
        with torch.inference_mode(False), torch.no_grad():
            self._module = module = load_model(self._model)
            decoder = choose_decoder(module)
        stops = None if self._model.tokenizer is None else StopStrings(self._model.tokenizer)
        total = self._total
        if total is None and decoder.cache is not None and not self._model.deterministic:
            total = decoder.cache.affordable_tokens()
        self._batch = RunningBatch(decoder, stops, Parking(self._max_rows, self._cache_tokens), total)
        positions = getattr(module.config, "max_position_embeddings", None)
        self.started.set_result(Limits(vocabulary_size(module), positions, total))

    def _take_news(self) -> bool:
        """Handle what has arrived, waiting while there is nothing to do; False: stop."""
        while True:
            with self._news:
                while not (self._closing or self._inbox or self._busy):
                    self._news.wait()
                if self._closing:
                    return False
                if not self._inbox or (self._busy and self._model.deterministic):
                    return True
                item = self._inbox.popleft()
            if isinstance(item, _Admit):
                self._waiting.extend(item.rows)
            else:
                self._call(item)

    @property
    def _busy(self) -> bool:
        return bool(self._waiting or self._batch.rows)

    def _call(self, item: _Call) -> None:
        if not item.future.set_running_or_notify_cancel():
            return
        try:
            item.future.set_result(item.action())
        except AgentR1Error as error:
            item.future.set_exception(error)
        except BaseException as error:
            item.future.set_exception(_stopped_by(error))
            raise

    def _step(self) -> None:
        room = self._max_rows - len(self._batch.rows)
        if room > 0 and self._waiting:
            # Episodes whose keys and values are here go first: a new one would take their place, and they read again.
            self._waiting = deque(sorted(self._waiting, key=lambda row: row.request.episode not in self._batch.parking))
            fitting = self._batch.fitting(islice(self._waiting, room))
            self._batch.admit([self._waiting.popleft() for _ in range(fitting)])
        self._batch.step(self._version)

    def _load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        copy_weights(self._module, weights)
        self._version = version
        self._batch.forget()

    def _stop(self, error: EngineError) -> None:
        with self._news:
            self._stopped = error
            items, self._inbox = list(self._inbox), deque()
        rows = [row for item in items if isinstance(item, _Admit) for row in item.rows]
        rows += self._waiting
        if hasattr(self, "_batch"):
            rows += self._batch.rows
        for row in rows:
            row.fail(error)
        for item in items:
            if isinstance(item, _Call) and item.future.set_running_or_notify_cancel():
                item.future.set_exception(error)
        if not self.started.done():
            self.started.set_exception(error)


def _stopped_by(error: BaseException) -> EngineError:
    if isinstance(error, EngineError):
        return error
    stopped = EngineError(
        f"the transformers engine stopped: {type(error).__name__}: {error}; "
        "nothing more can be generated, so resume the run from its last checkpoint"
    )
    stopped.__cause__ = error
    return stopped
