"""TransformersEngine: the embedded engine, for any decoder-only model of transformers, on a CPU or one GPU.

Requests that arrive while others generate join them at the next step, and rows that end leave at once; the keys and
values of an episode live across its turns. One process, one device: a model that needs more wants another engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from pydantic import Field

from agent_r1_core import Engine, EngineConfig, Generation, Request, check_request
from agent_r1_core.errors import EngineError
from agent_r1_transformers.worker import Limits, Worker

if TYPE_CHECKING:
    import torch

    from agent_r1_core.contracts.engine import EngineModel


class TransformersEngine(Engine):
    """Generates with the model in this process, in a thread of its own."""

    class Config(EngineConfig):
        """Options of the `transformers` engine."""

        cache_tokens: int | None = Field(default=None, ge=0)
        """Tokens whose keys and values are kept for episodes that wait for a tool; the least recently used episodes
        are dropped first and read again. null: those of `max_episodes` episodes; 0: none."""
        max_total_tokens: int | None = Field(default=None, ge=1)
        """Tokens whose keys and values are held at once, running requests first; further requests wait for room. null:
        what a quarter of the free memory holds, and in deterministic runs no bound."""

    _worker: Worker | None = None
    _limits: Limits
    _model: EngineModel

    async def start(self, model: EngineModel) -> None:
        await self.close()
        worker = Worker(model, max(1, self.config.max_episodes), self.config.cache_tokens, self.config.max_total_tokens)
        self._limits = await asyncio.wrap_future(worker.started)
        self._model, self._worker = model, worker

    async def generate(self, request: Request) -> Generation:
        return (await self.generate_batch([request]))[0]

    async def generate_batch(self, requests: Sequence[Request]) -> list[Generation]:
        """Serve requests that are admitted together in this order.

        Raises:
            EngineError: one of them cannot be served (none is, then), or the engine has stopped.
        """
        worker = self._running()
        limits = [self._limit(request) for request in requests]
        futures = [asyncio.wrap_future(future) for future in worker.submit(requests, limits)]
        return list(await asyncio.gather(*futures))

    async def release(self, episode: str) -> None:
        if self._worker is not None:
            self._worker.release(episode)

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Serve these weights from the next token on, also to requests in flight, whose contexts are read again.

        Raises:
            EngineError: names or shapes do not fit the model (it keeps its weights, then), or the engine has stopped.
        """
        await asyncio.wrap_future(self._running().load_weights(weights, version))

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await asyncio.to_thread(worker.close)

    @property
    def statistics(self) -> dict[str, int]:
        """Counts of tokens since the start: read, reused, shared, sampled; and of steps."""
        return asdict(self._running().statistics)

    def _running(self) -> Worker:
        if self._worker is None:
            raise EngineError("the transformers engine is not running; await start(model) first")
        return self._worker

    def _limit(self, request: Request) -> int:
        """Tokens that the request may sample, after checking that it can be served."""
        ids, positions, decodes = request.ids, self._limits.positions, self._model.tokenizer is not None
        check_request(request, vocabulary=self._limits.vocabulary, positions=positions, decodes=decodes)
        budget = request.sampling.max_new_tokens
        limit = budget if positions is None else min(budget, positions - len(ids))
        room = self._limits.total_tokens
        if room is not None and len(ids) + limit > room:
            raise EngineError(
                f"a context of {len(ids)} ids and {limit} new ones needs more than the {room} tokens of the cache; "
                "raise engine.max_total_tokens, or lower env.max_tokens or engine.max_new_tokens"
            )
        return limit
