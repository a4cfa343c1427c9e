"""ThreadedEngine: an Engine around an EngineBackend. It checks requests; a thread of its own drives the backend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_r1_core.contracts.engine import Engine, EngineModel, Generation, Request, check_request
from agent_r1_core.engines.worker import EngineBackend, Worker
from agent_r1_core.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor


class ThreadedEngine(Engine):
    """Define `make_backend`; this class keeps the rest of the contract."""

    _worker: Worker | None = None

    def make_backend(self) -> EngineBackend:
        """A new backend, made from `self.config`; keep it cheap, since `EngineBackend.open` loads the model."""
        raise TypeError(f"engine {type(self).__name__} defines no make_backend(); add one")

    async def start(self, model: EngineModel) -> None:
        await self.close()
        worker = Worker(self._title, self.make_backend(), model)
        try:
            await asyncio.wrap_future(worker.limits)
        except BaseException:
            worker.stop()  # also when the caller was cancelled: the thread ends once the model is loaded
            raise
        self._worker = worker

    async def generate(self, request: Request) -> Generation:
        return (await self.generate_batch([request]))[0]

    async def generate_batch(self, requests: Sequence[Request]) -> list[Generation]:
        """Serve requests that are admitted together in this order; abort those that are cancelled.

        Raises:
            EngineError: one of them cannot be served (then none is), or the engine has stopped.
        """
        worker = self._running()
        checked = [_checked(request, worker) for request in requests]
        return list(await asyncio.gather(*worker.submit(checked)))

    async def release(self, episode: str) -> None:
        worker = self._worker
        if worker is not None:
            with suppress(EngineError):  # a stopped engine keeps nothing
                worker.call(lambda: worker.backend.release(episode))

    async def sleep(self) -> None:
        worker = self._running()
        await asyncio.wrap_future(worker.call(worker.backend.sleep))

    async def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Serve these weights from the next token on, also to requests in flight, whose contexts are read again.

        Raises:
            EngineError: names or shapes do not fit the model (it then keeps its weights), or the engine has stopped.
        """
        worker = self._running()
        await asyncio.wrap_future(worker.call(lambda: worker.backend.load_weights(weights, version)))

    def broken(self) -> EngineError | None:
        return None if self._worker is None else self._worker.stopped

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await asyncio.to_thread(worker.close)

    @property
    def statistics(self) -> dict[str, int]:
        """What the backend counted since the start."""
        return self._running().backend.counts()

    @property
    def _title(self) -> str:
        return self.name or type(self).__name__

    def _running(self) -> Worker:
        if self._worker is None:
            raise EngineError(f"the {self._title} engine is not running; await start(model) first")
        return self._worker


def _checked(request: Request, worker: Worker) -> Request:
    """The request, with its budget cut to the positions that its context leaves."""
    limits, decodes = worker.limits.result(), worker.model.tokenizer is not None
    check_request(request, vocabulary=limits.vocabulary, positions=limits.positions, decodes=decodes)
    if limits.positions is not None:
        left = limits.positions - len(request.ids)
        if left < request.sampling.max_new_tokens:
            request = replace(request, sampling=request.sampling.within(left))
    worker.backend.check(request)
    return request


def stop_length(ids: Sequence[int], request: Request, decode: Callable[[list[int]], str] | None) -> int | None:
    """How many of the sampled ids belong to the answer: all up to and including the first one that is a stop id or
    completes a stop string. None: there is no stop.

    Decodes every prefix anew, so use it for short answers. `decode` may be None if there are no stop strings.
    """
    for length in range(1, len(ids) + 1):
        if ids[length - 1] in request.stop_ids:
            return length
        if request.stop_strings and decode is not None:
            text = decode(list(ids[:length]))
            if any(stop in text for stop in request.stop_strings):
                return length
    return None
