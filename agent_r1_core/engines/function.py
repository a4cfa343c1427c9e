"""FunctionEngine: an engine made from one method that generates with a transformers model.

It batches all waiting requests and keeps nothing between turns; requests that arrive later wait until the method
returns. For speed, write an EngineBackend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from agent_r1_core.contracts.engine import EngineModel, Generation, Request, context_digest
from agent_r1_core.engines.threaded import ThreadedEngine, stop_length
from agent_r1_core.engines.weights import copy_weights, load_module, vocabulary_size
from agent_r1_core.engines.worker import EngineBackend, EngineLimits
from agent_r1_core.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor


Row = tuple[Sequence[int], Sequence[float]]
"""Sampled ids, and their log-probs in nats."""


class FunctionEngine(ThreadedEngine):
    """Define `generate_rows`. This class handles the model, its weights, stops, cancellation and errors."""

    def generate_rows(self, module: Any, requests: Sequence[Request]) -> Sequence[Row]:
        """Continue every request; runs without gradients, in a thread of the engine.

        Args:
            module: a model of the transformers library, with the newest weights, in the run's dtype, on its device.
            requests: at most `max_episodes`. A row must obey its request's `sampling` and depend on nothing but its
                request, `seed` included (LAW 11).

        Returns:
            For each request the sampled ids, `sampling.max_new_tokens` of them or fewer with a stop among them, and for
            each id log softmax(logits / temperature), before top-p and top-k (LAW 2). Ids after a stop are cut off.
        """
        raise TypeError(f"engine {type(self).__name__} defines no generate_rows(module, requests); add one")

    def make_backend(self) -> EngineBackend:
        return _FunctionBackend(self.generate_rows, self.config.max_episodes)


class _FunctionBackend(EngineBackend):
    """Serves all waiting requests to their end in one step."""

    def __init__(self, generate_rows: Callable[[Any, Sequence[Request]], Sequence[Row]], max_rows: int) -> None:
        self._generate_rows = generate_rows
        self._max_rows = max_rows
        self._waiting: dict[int, Request] = {}
        self._version = 0

    def open(self, model: EngineModel) -> EngineLimits:
        self._module = module = load_module(model)
        self._decode = None if model.tokenizer is None else model.tokenizer.decode
        return EngineLimits(vocabulary_size(module), getattr(module.config, "max_position_embeddings", None))

    def add(self, key: int, request: Request) -> None:
        self._waiting[key] = request

    def step(self) -> list[tuple[int, Generation | EngineError]]:
        keys = list(self._waiting)[: self._max_rows]
        requests = [self._waiting.pop(key) for key in keys]
        with torch.no_grad():
            rows = self._generate_rows(self._module, requests)
        if len(rows) != len(requests):
            raise EngineError(f"generate_rows gave {len(rows)} rows for {len(requests)} requests; give one for each")
        return [(key, self._generation(request, *row)) for key, request, row in zip(keys, requests, rows, strict=True)]

    def abort(self, key: int) -> None:
        del self._waiting[key]

    def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        copy_weights(self._module, weights)
        self._version = version

    def _generation(self, request: Request, ids: Sequence[int], logprobs: Sequence[float]) -> Generation:
        budget = request.sampling.max_new_tokens
        if len(ids) != len(logprobs):
            raise EngineError(f"generate_rows gave {len(logprobs)} log-probs for {len(ids)} ids; give one for each")
        length = stop_length(ids[:budget], request, self._decode)
        if length is None and len(ids) < budget:
            raise EngineError(
                f"generate_rows ended a row after {len(ids)} of {budget} ids without a stop; sample until one of the "
                "request's stops, or to the end of its budget"
            )
        kept = slice(length or budget)
        return Generation(
            ids=tuple(int(token) for token in ids[kept]),
            logprobs=tuple(float(logprob) for logprob in logprobs[kept]),
            finish="length" if length is None else "stop",
            context=context_digest(request.ids),
            version=self._version,
        )
