"""TransformersEngine: the embedded engine, for any decoder-only model of transformers, on a CPU or one GPU.

New requests join the running ones at the next step, and rows leave as soon as they end. Keys and values of an episode
are kept across its turns. One process, one device: a model that needs more needs another engine. It leaves torch's
thread setting as it is, and chooses, by a trial when it starts, the fastest decoder that agrees with the model itself.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor

from agent_r1_core import EngineBackend, EngineConfig, EngineLimits, Generation, Request, ThreadedEngine
from agent_r1_core.contracts.engine import EngineModel
from agent_r1_core.engines.weights import copy_weights, load_module, vocabulary_size
from agent_r1_core.errors import EngineError, first_line
from agent_r1_transformers.batch import RunningBatch, StopStrings
from agent_r1_transformers.cache import Parking
from agent_r1_transformers.decoder import Decoder, SlotDecoder, WholeDecoder, last_logits
from agent_r1_transformers.graphs import Graphs
from agent_r1_transformers.hugging import CachedDecoder, layer_shapes
from agent_r1_transformers.lean import LeanDecoder, suited_kernels, suits
from agent_r1_transformers.linear import packs
from agent_r1_transformers.row import Row

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 3e-2}
"""Largest accepted ||difference|| / ||logits||; a wrong mask or position gives 0.05 and more."""


class TransformersEngine(ThreadedEngine):
    """Generates with the model in this process, in a thread of its own."""

    name = "transformers"

    class Config(EngineConfig):
        """Options of the `transformers` engine."""

        cache_tokens: int | None = Field(default=None, ge=0)
        """Most tokens whose keys and values are kept for episodes that wait for a tool; the least recently used
        episodes are dropped first and read again. null: those of `max_episodes` episodes; 0: none."""
        max_total_tokens: int | None = Field(default=None, ge=1)
        """Most tokens whose keys and values are held at once, running requests first; further requests wait. null: as
        many as fit in a quarter of the free memory, and without limit in deterministic runs."""
        cuda_graphs: bool = True
        """Whether a GPU plays recorded steps: several times as fast, for some memory. Models like Llama and Qwen have
        them."""

    def make_backend(self) -> EngineBackend:
        config = self.config
        limits = config.max_episodes, config.cache_tokens, config.max_total_tokens
        return TransformersBackend(*limits, config.cuda_graphs)


class TransformersBackend(EngineBackend):
    """Generates with a model in this process."""

    def __init__(
        self, max_rows: int, cache_tokens: int | None, total_tokens: int | None, cuda_graphs: bool = False
    ) -> None:
        """Limit the rows that run at once, the tokens kept for rows between turns, and the tokens of both together."""
        self._cuda_graphs = cuda_graphs
        self._max_rows = max_rows
        self._cache_tokens = cache_tokens
        self._total_tokens = total_tokens
        self._waiting: deque[Row] = deque()

    def open(self, model: EngineModel) -> EngineLimits:
        with torch.no_grad():
            self._module = module = load_module(model)
            decoder = choose_decoder(module)
        if self._cuda_graphs and module.device.type == "cuda" and isinstance(decoder, LeanDecoder):
            decoder.graphs = Graphs()
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


def choose_decoder(module: PreTrainedModel) -> Decoder:
    """The lean decoder if it supports the model, else the cached one, else whole contexts with a warning."""
    why: str | None = None
    shapes = layer_shapes(module)
    if shapes is not None:
        factories: list[Callable[[], SlotDecoder]] = [lambda: CachedDecoder(module, shapes)]
        if suits(module) and len(set(shapes)) == 1:
            packed = [True, False] if packs(module) else [False]
            found = suited_kernels(module, shapes)
            ways = [(own, one) for own in dict.fromkeys((found, None)) for one in packed]
            factories = [*(partial(LeanDecoder, module, shapes, one, own) for own, one in ways), *factories]
        for make_decoder in factories:
            try:
                decoder = make_decoder()
                gap = _disagreement(module, decoder)
            except Exception as error:  # model code that knows no ready mask or other caches, and compilers, raise many
                why = f"a trial with a ragged cache failed ({type(error).__name__}: {first_line(error)})"
                continue
            if gap <= _TOLERANCE[module.dtype]:
                if why is not None:
                    logger.warning("%s is decoded in a slower way, because %s", type(module).__name__, why)
                return decoder
            why = f"a trial with a ragged cache gave other logits (relative difference {gap:.2g})"
    logger.warning(
        "The transformers engine keeps no cache for %s, because %s: every step reads the whole context anew, which is "
        "right but slow",
        type(module).__name__,
        why or "its layers keep something other than the keys and values of all tokens",
    )
    return WholeDecoder(module)


@torch.inference_mode()  # as all that follows: what is compiled for one mode is compiled anew for another
def _disagreement(module: PreTrainedModel, decoder: SlotDecoder) -> float:
    """||difference|| / ||logits|| between a decoder and the module, on two rows of different lengths read in chunks."""
    vocabulary = vocabulary_size(module)
    ids = [(7 * place + 3) % vocabulary for place in range(9)]
    contexts = [ids, ids[4:8]]
    expected = last_logits(module, contexts).float()
    decoder.read(0, [0, 0], [contexts[0][:5], contexts[1][:1]])
    decoder.read(0, [5, 1], [contexts[0][5:-1], contexts[1][1:-1]])
    logits = decoder.next_logits(contexts).float()
    return float((logits - expected).norm() / expected.norm().clamp_min(1e-20))
