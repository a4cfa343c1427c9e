"""TransformersBackend: the model and its rows. It admits waiting requests between steps; all rows step at once.

It leaves torch's thread setting as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice

import torch
from torch import Tensor

from agent_r1_core import EngineBackend, EngineLimits, Generation, Request
from agent_r1_core.contracts.engine import EngineModel
from agent_r1_core.engines.weights import copy_weights, load_module, vocabulary_size
from agent_r1_core.errors import EngineError
from agent_r1_transformers.batch import RunningBatch
from agent_r1_transformers.cache import Parking
from agent_r1_transformers.choice import choose_decoder
from agent_r1_transformers.row import Row
from agent_r1_transformers.stops import StopStrings


class TransformersBackend(EngineBackend):
    """Generates with a model in this process."""

    def __init__(self, max_rows: int, cache_tokens: int | None, total_tokens: int | None) -> None:
        """Limit the rows that run at once, the tokens kept for rows between turns, and the tokens of both together."""
        self._max_rows = max_rows
        self._cache_tokens = cache_tokens
        self._total_tokens = total_tokens
        self._waiting: deque[Row] = deque()

    def open(self, model: EngineModel) -> EngineLimits:
        with torch.no_grad():
            self._module = module = load_module(model)
            decoder = choose_decoder(module)
        stops = None if model.tokenizer is None else StopStrings(model.tokenizer)
        if self._total_tokens is None and decoder.cache is not None and not model.deterministic:
            self._total_tokens = decoder.cache.affordable_tokens()
        self._batch = RunningBatch(decoder, stops, Parking(self._max_rows, self._cache_tokens), self._total_tokens)
        return EngineLimits(vocabulary_size(module), getattr(module.config, "max_position_embeddings", None))

    def check(self, request: Request) -> None:
        context, budget, room = len(request.ids), request.sampling.max_new_tokens, self._total_tokens
        if room is not None and context + budget > room:
            raise EngineError(
                f"a context of {context} ids and {budget} new ones needs more than the {room} tokens of the cache; "
                "raise engine.max_total_tokens, or lower env.max_tokens or engine.max_new_tokens"
            )

    def add(self, key: int, request: Request) -> None:
        self._waiting.append(Row(key, request))

    @torch.inference_mode()
    def step(self) -> list[tuple[int, Generation | EngineError]]:
        room = self._max_rows - len(self._batch.rows)
        if room > 0 and self._waiting:
            # Episodes whose keys and values are cached go first: a new one would evict them, and they would read again.
            self._waiting = deque(sorted(self._waiting, key=lambda row: row.request.episode not in self._batch.parking))
            fitting = self._batch.fitting(islice(self._waiting, room))
            self._batch.admit([self._waiting.popleft() for _ in range(fitting)])
        return self._batch.step()

    @torch.inference_mode()
    def abort(self, key: int) -> None:
        waiting = next((row for row in self._waiting if row.key == key), None)
        if waiting is None:
            self._batch.drop(key)
        else:
            self._waiting.remove(waiting)

    @torch.inference_mode()
    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Copy new weights between two steps; running rows read their contexts again."""
        copy_weights(self._module, weights)
        self._batch.renew(version)

    def release(self, episode: str) -> None:
        self._batch.parking.pop(episode)

    def counts(self) -> dict[str, int]:
        """Tokens since the start: read, reused, shared, sampled; and steps."""
        return asdict(self._batch.statistics)
