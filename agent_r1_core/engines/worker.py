"""EngineBackend, the part of an engine that computes; and the Worker, the thread that drives it.

The worker admits requests between steps, and answers those that a step has ended together: waking an event loop costs
more than a small model's token.

In deterministic mode batches run one after the other, each to its end, so that the shapes of all computations depend on
the requests alone (LAW 11).
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import AgentR1Error, EngineError

if TYPE_CHECKING:
    from torch import Tensor

    from agent_r1_core.contracts.engine import EngineModel, Generation, Request


@dataclass(frozen=True)
class EngineLimits:
    """Limits on every request."""

    vocabulary: int
    """Number of ids that the model knows."""
    positions: int | None
    """Longest context in ids, generated ones included; None: no limit."""


class EngineBackend:
    """Generates. Every method but `check` and `counts` runs in one thread, so a backend needs no locks.

    An EngineError raised by `add` or `load_weights` goes to its caller alone. Any other exception stops the engine for
    good, and all waiting and running requests fail with it.
    """

    def open(self, model: EngineModel) -> EngineLimits:
        """Load the model and become ready.

        Raises:
            EngineError: it cannot be served; `close` is then not called.
        """
        raise TypeError(f"{type(self).__name__} defines no open(model); add one")

    def check(self, request: Request) -> None:
        """Refuse a request that is within the limits but can never run here; the caller's thread calls this.

        Raises:
            EngineError: why, and what to change.
        """

    def add(self, key: int, request: Request) -> None:
        """Queue a request under a unique key; its budget fits within the positions.

        Raises:
            EngineError: the request cannot be served; the others continue.
        """
        raise TypeError(f"{type(self).__name__} defines no add(key, request); add one")

    def step(self) -> Iterable[tuple[int, Generation | EngineError]]:
        """Compute one step; called as long as some requests have neither ended nor been aborted.

        Returns:
            The requests that ended, by key, each with its result or its error. A result whose log-probs are not all
            finite reaches its caller as an error.
        """
        raise TypeError(f"{type(self).__name__} defines no step(); add one")

    def abort(self, key: int) -> None:
        """Drop a request that was added and has not ended: its caller was cancelled."""
        raise TypeError(f"{type(self).__name__} defines no abort(key); add one")

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Serve these weights from the next step on, as in `Engine.load_weights`: copy all of them or none.

        Raises:
            EngineError: they do not fit the model; the engine keeps the old ones.
        """
        raise TypeError(f"{type(self).__name__} defines no load_weights(weights, version); add one")

    def release(self, episode: str) -> None:
        """The episode is over: drop what is kept for it."""

    def sleep(self) -> None:
        """No steps until the next `load_weights`: free memory for the learner."""

    def counts(self) -> dict[str, int]:
        """Statistics since the start, for logs; any thread may call it."""
        return {}

    def close(self) -> None:
        """Release everything; drop running requests."""


_Answer = asyncio.Future["Generation"]
_Admission = list[tuple[int, "Request", _Answer]]
"""Requests that are admitted together, in this order, each with its key and its future."""


@dataclass(frozen=True)
class _Call:
    """Any other call of the backend, made between two steps."""

    action: Callable[[], object]
    future: Future[Any]


class Worker:
    """Runs a backend in a daemon thread of its own."""

    def __init__(self, engine: str, backend: EngineBackend, model: EngineModel) -> None:
        """Start the thread; `engine` is the engine's name in errors."""
        self.backend = backend
        self.model = model
        self.limits: Future[EngineLimits] = Future()
        """Resolved when the backend is open."""
        self._engine = engine
        self._inbox: deque[_Admission | _Call] = deque()
        self._arrival = threading.Condition()
        self._closing = False
        self.stopped: EngineError | None = None
        """Why the thread has ended."""
        self._keys = itertools.count()
        self._running: dict[int, _Answer] = {}
        self._cancelled: deque[int] = deque()
        self._thread = threading.Thread(target=self._run, name=f"agent-r1-{engine}", daemon=True)
        self._thread.start()
        # A thread that is inside torch while the interpreter shuts down aborts the process, so stop it before that.
        atexit.register(self.close)

    # Called from outside.

    def submit(self, requests: Sequence[Request]) -> list[_Answer]:
        """Queue requests together, in this order; the futures are of the running loop, and one that is cancelled aborts
        its request.

        Raises:
            EngineError: the worker has stopped.
        """
        admission: _Admission = []
        loop = asyncio.get_running_loop()
        for request in requests:
            key = next(self._keys)
            future: _Answer = loop.create_future()
            future.add_done_callback(partial(self._note_cancelled, key))
            admission.append((key, request, future))
        self._post(admission)
        return [future for _, _, future in admission]

    def call(self, action: Callable[[], object]) -> Future[Any]:
        """Run `action` in the thread, between two steps; an EngineError where the worker has stopped."""
        future: Future[Any] = Future()
        self._post(_Call(action, future))
        return future

    def stop(self) -> None:
        """End the thread after the current step; waiting and running requests fail."""
        with self._arrival:
            self._closing = True
            self._arrival.notify()

    def close(self) -> None:
        """Stop, and wait until the thread has ended."""
        self.stop()
        self._thread.join()
        atexit.unregister(self.close)

    def _post(self, item: _Admission | _Call) -> None:
        with self._arrival:
            if self.stopped is not None:
                raise self.stopped
            self._inbox.append(item)
            self._arrival.notify()

    def _note_cancelled(self, key: int, future: _Answer) -> None:
        if future.cancelled():
            self._cancelled.append(key)

    # The thread.

    def _run(self) -> None:
        opened = False
        error = EngineError(f"the {self._engine} engine is closed; start it again to generate")
        try:
            self.limits.set_running_or_notify_cancel()  # from here on nobody can cancel it
            limits = self.backend.open(self.model)
            opened = True
            self.limits.set_result(limits)
            while self._receive():
                ended = list(self.backend.step())
                _answer(  # one that is not running was aborted during the step
                    (self._running.pop(key), _finite(outcome)) for key, outcome in ended if key in self._running
                )
        except BaseException as raised:
            error = self._stopped_by(raised)
        try:
            if opened:
                self.backend.close()
        except BaseException as raised:
            error = self._stopped_by(raised)
        finally:
            self._fail_all(error)

    def _receive(self) -> bool:
        """Handle what has arrived since the last step; wait while there is nothing to do. Returns False to stop."""
        while True:
            self._abort_cancelled()
            with self._arrival:
                while not (self._closing or self._inbox or self._running):
                    self._arrival.wait()
                if self._closing:
                    return False
                if not self._inbox or (self._running and self.model.deterministic):
                    return True
                item = self._inbox.popleft()
            if isinstance(item, _Call):
                self._call(item)
            else:
                self._admit(item)

    def _abort_cancelled(self) -> None:
        while self._cancelled:
            key = self._cancelled.popleft()
            if self._running.pop(key, None) is not None:
                self.backend.abort(key)

    def _admit(self, admission: _Admission) -> None:
        for key, request, future in admission:
            if future.cancelled():
                continue
            try:
                self.backend.add(key, request)
            except EngineError as error:
                _answer([(future, error)])
            else:
                self._running[key] = future

    def _call(self, call: _Call) -> None:
        if not call.future.set_running_or_notify_cancel():
            return
        try:
            call.future.set_result(call.action())
        except AgentR1Error as error:
            call.future.set_exception(error)
        except BaseException as error:
            call.future.set_exception(self._stopped_by(error))
            raise

    def _fail_all(self, error: EngineError) -> None:
        with self._arrival:
            self.stopped = error
            items, self._inbox = list(self._inbox), deque()
        if not self.limits.done():
            self.limits.set_exception(error)
        waiting = list(self._running.values())
        for item in items:
            if isinstance(item, _Call):
                if item.future.set_running_or_notify_cancel():
                    item.future.set_exception(error)
            else:
                waiting += [future for _, _, future in item]
        _answer((future, error) for future in waiting)

    def _stopped_by(self, error: BaseException) -> EngineError:
        if isinstance(error, EngineError):
            return error
        stopped = EngineError(
            f"the {self._engine} engine stopped: {type(error).__name__}: {error}; "
            "nothing more can be generated, so resume the run from its last checkpoint"
        )
        stopped.__cause__ = error
        return stopped


def _finite(outcome: Generation | EngineError) -> Generation | EngineError:
    """The outcome, or an error if a log-prob is not finite: it would spoil the update."""
    if isinstance(outcome, EngineError) or all(map(math.isfinite, outcome.logprobs)):
        return outcome
    return EngineError(
        f"the model gave log-probs that are not finite under weights version {outcome.version}; the last update "
        "diverged, so resume from an earlier checkpoint with a lower learning rate"
    )


def _answer(answers: Iterable[tuple[_Answer, Generation | EngineError]]) -> None:
    """Give requests their results or errors, each event loop all of its own at once."""
    of_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Answer, Generation | EngineError]]] = {}
    for future, outcome in answers:
        of_loop.setdefault(future.get_loop(), []).append((future, outcome))
    for loop, own in of_loop.items():
        with suppress(RuntimeError):  # it has ended, so nobody waits
            loop.call_soon_threadsafe(_settle, own)


def _settle(answers: Iterable[tuple[_Answer, Generation | EngineError]]) -> None:
    for future, outcome in answers:
        if future.done():  # it was cancelled
            continue
        if isinstance(outcome, EngineError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
