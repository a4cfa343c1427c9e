"""The thread that drives vLLM: admits requests between steps, answers each at its end, changes weights between steps.

Everything that touches vLLM runs in this one thread, so nothing needs a lock but the inbox. In deterministic mode jobs
run one after the other, each batch to its end, so that the shapes of all computations depend on the requests alone
(LAW 11).
"""

from __future__ import annotations

import atexit
import itertools
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from agent_r1_core import Generation, Request
from agent_r1_core.errors import AgentR1Error, EngineError
from agent_r1_vllm.backend import Backend, Limits
from agent_r1_vllm.requests import generation

if TYPE_CHECKING:
    from torch import Tensor

    from agent_r1_core.contracts.engine import EngineModel


@dataclass
class Statistics:
    """Tokens and requests by what happened to them, since the engine started."""

    context: int = 0
    """Ids of the contexts of requests that ended."""
    cached: int = 0
    """Of these, ids whose keys and values the prefix cache held."""
    sampled: int = 0
    aborted: int = 0
    """Requests that were cancelled before their end."""


@dataclass(frozen=True)
class _Call:
    action: Callable[[], object]
    future: Future[Any]


_Admission = list[tuple[Request, Future[Generation]]]


class Worker:
    """Runs vLLM in a daemon thread of its own."""

    def __init__(self, model: EngineModel, config: Any) -> None:
        self._model = model
        self._config = config
        self._inbox: deque[_Admission | _Call] = deque()
        self._news = threading.Condition()
        self._stopped: EngineError | None = None
        self._closing = False
        self._names = map(str, itertools.count())
        self._running: dict[str, Future[Generation]] = {}
        self.statistics = Statistics()
        """Counts since the start."""
        self.started: Future[Limits] = Future()
        """Resolved when vLLM is ready."""
        self._threads = torch.get_num_threads()
        self._thread = threading.Thread(target=self._run, name="agent-r1-vllm", daemon=True)
        self._thread.start()
        # A thread that is inside torch while the interpreter goes down aborts the process: stop it before.
        atexit.register(self.close)

    # Called from outside.

    def submit(self, requests: Sequence[Request]) -> list[Future[Generation]]:
        """Queue requests together, in this order; cancelling a future aborts its request.

        Raises:
            EngineError: the worker has stopped.
        """
        futures: list[Future[Generation]] = [Future() for _ in requests]
        self._post(list(zip(requests, futures, strict=True)))
        for future in futures:
            future.add_done_callback(self._tell_cancelled)
        return futures

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> Future[Any]:
        """Replace the weights between two steps."""
        return self._ask(lambda: self._backend.load_weights(weights, version))

    def sleep(self) -> Future[Any]:
        """Give the GPU's memory back until the next weights."""
        return self._ask(lambda: self._backend.sleep())

    def close(self) -> None:
        """Stop after the step that is running; what waits or runs fails. Returns when the thread has ended."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join()
        atexit.unregister(self.close)

    def _ask(self, action: Callable[[], object]) -> Future[Any]:
        future: Future[Any] = Future()
        self._post(_Call(action, future))
        return future

    def _post(self, item: _Admission | _Call) -> None:
        with self._news:
            if self._stopped is not None:
                raise self._stopped
            self._inbox.append(item)
            self._news.notify()

    def _tell_cancelled(self, future: Future[Generation]) -> None:
        if future.cancelled():
            with suppress(EngineError):
                self._post(_Call(self._abort_cancelled, Future()))

    # The thread.

    def _run(self) -> None:
        torch.set_num_threads(self._threads)
        backend: Backend | None = None
        try:
            backend = self._backend = Backend(self._model, self._config)
            self.started.set_result(backend.limits)
            while self._take_news():
                for output in backend.step():
                    self._finish(output)
            error = EngineError("the vllm engine is closed; start it again to generate")
        except BaseException as raised:
            error = _stopped_by(raised)
        try:
            if backend is not None:
                backend.close()
        except Exception as raised:
            error = _stopped_by(raised)
        finally:
            self._stop(error)

    def _take_news(self) -> bool:
        """Handle what has arrived, waiting while there is nothing to do; False: stop."""
        while True:
            with self._news:
                while not (self._closing or self._inbox or self._running):
                    self._news.wait()
                if self._closing:
                    return False
                item = self._next_item()
            if item is None:
                return True
            if isinstance(item, _Call):
                self._call(item)
            else:
                self._admit(item)

    def _next_item(self) -> _Admission | _Call | None:
        """The next thing to handle before the next step, None if that is due."""
        if self._running and self._model.deterministic:
            return None
        return self._inbox.popleft() if self._inbox else None

    def _admit(self, admission: _Admission) -> None:
        for request, future in admission:
            if future.cancelled():
                continue
            name = next(self._names)
            try:
                self._backend.add(name, request)
            except EngineError as error:
                future.set_exception(error)
            else:
                self._running[name] = future

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

    def _abort_cancelled(self) -> None:
        for name in [name for name, future in self._running.items() if future.cancelled()]:
            self._backend.abort(name)
            del self._running[name]
            self.statistics.aborted += 1

    def _finish(self, output: Any) -> None:
        future = self._running.pop(output.request_id, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        try:
            answer = generation(output)
        except EngineError as error:
            future.set_exception(error)
            return
        self.statistics.context += len(output.prompt_token_ids)
        self.statistics.cached += output.num_cached_tokens or 0
        self.statistics.sampled += len(answer.ids)
        future.set_result(answer)

    def _stop(self, error: EngineError) -> None:
        with self._news:
            self._stopped = error
            items, self._inbox = list(self._inbox), deque()
        futures: list[Future[Any]] = [self.started] if not self.started.done() else []
        futures += self._running.values()
        for item in items:
            futures += [item.future] if isinstance(item, _Call) else [future for _, future in item]
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)


def _stopped_by(error: BaseException) -> EngineError:
    if isinstance(error, EngineError):
        return error
    stopped = EngineError(
        f"the vllm engine stopped: {type(error).__name__}: {error}; "
        "nothing more can be generated, so resume the run from its last checkpoint"
    )
    stopped.__cause__ = error
    return stopped
