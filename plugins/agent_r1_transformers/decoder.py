"""Decoder: turns rows of ids into next-token logits. There are three, with one interface.

`LeanDecoder` (lean.py) computes Llama-like models itself. `CachedDecoder` (hugging.py) runs any transformers model
whose layers all keep plain keys and values. `WholeDecoder` (here) reads every context anew in every step: slow, but
right for every causal model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from agent_r1_core.devices import on_device
from agent_r1_core.engines.sampling import Draws, sample, told
from agent_r1_transformers.cache import RowCache
from agent_r1_transformers.graphs import Graphs, rounded_rows, rounded_span

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Decoder(ABC):
    """Reads ids into slots and computes logits; a row's slot is its index in the batch."""

    cache: RowCache | None = None
    """Holds keys and values; None: nothing is kept."""

    def read(self, first: int, starts: Sequence[int], chunks: Sequence[Sequence[int]]) -> None:  # noqa: B027
        """Read chunks of ids into the slots `first`, `first + 1`, ...; chunk i follows `starts[i]` ids read before.
        Nothing to do where nothing is kept."""

    @abstractmethod
    def next_logits(self, contexts: Sequence[Sequence[int]], trunk: int = 0) -> Tensor:
        """Logits [rows, vocabulary] after each context; all its ids but the last were read into the row's slot. The
        first `trunk` ids, not the last one, are the same in all contexts."""

    def sample(self, contexts: Sequence[Sequence[int]], how: Draws, trunk: int = 0) -> tuple[list[int], list[float]]:
        """The next id of each row, and their log-probs; contexts and trunk are those of `next_logits`."""
        return told(sample(self.next_logits(contexts, trunk), how))

    def renew(self) -> None:  # noqa: B027
        """The module's weights have changed; keys and values in the cache are void."""


class SlotDecoder(Decoder):
    """Base of decoders that keep keys and values: prepares ids, positions and mask for one forward pass."""

    cache: RowCache
    graphs: Graphs | None = None
    """What records steps that sample, and plays them again; None: nothing does."""
    reads_own_places = False
    """Whether each row of a step that samples reads its own places alone, so that no step depends on the span."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @abstractmethod
    def forward(self, ids: Tensor, positions: Tensor, logits: bool, trunk: int) -> Tensor | None:
        """Run the model on [rows, new] ids at `positions`, after `cache.place`.

        Args:
            ids: [rows, new], padded on the right with id 0.
            positions: [rows, new].
            logits: whether to return the logits [rows, vocabulary] of the last column.
            trunk: number of first places that are the same in all rows; all new ids come after them.
        """

    def seen(self, positions: Tensor) -> Tensor:
        """Which places in use each new id may see, bool [rows, 1, new, span]."""
        return torch.arange(self.cache.span, device=self._device) <= positions[:, None, :, None]

    def read(self, first: int, starts: Sequence[int], chunks: Sequence[Sequence[int]]) -> None:
        width = max(len(chunk) for chunk in chunks)
        span = max(starts) + width
        self.cache.reserve(first + len(chunks), span)
        ids = on_device(torch.tensor([[*chunk, *[0] * (width - len(chunk))] for chunk in chunks]), self._device)
        positions = on_device(torch.tensor(starts)[:, None] + torch.arange(width), self._device)
        self._run(first, ids, positions, span, logits=False)

    def next_logits(self, contexts: Sequence[Sequence[int]], trunk: int = 0) -> Tensor:
        if self.graphs is not None:
            return self._play(self.graphs, contexts, None)[0]
        span = max(len(context) for context in contexts)
        self.cache.reserve(len(contexts), span)
        return self._step(span, trunk, on_device(_last(contexts), self._device))

    def sample(self, contexts: Sequence[Sequence[int]], how: Draws, trunk: int = 0) -> tuple[list[int], list[float]]:
        if self.graphs is None or how.limits:  # which differ by row
            return super().sample(contexts, how, trunk)
        return told(self._play(self.graphs, contexts, how)[1])

    def _play(self, graphs: Graphs, contexts: Sequence[Sequence[int]], how: Draws | None) -> tuple[Tensor, ...]:
        """Logits after the contexts, and what is sampled from them."""
        rows, span = rounded_rows(len(contexts)), rounded_span(max(len(context) for context in contexts))
        self.cache.reserve(rows, span)
        span = self.cache.places if self.reads_own_places else span
        columns = [_last(contexts).double(), *([] if how is None else [how.numbers])]
        # Further rows write to slots of nobody, and what is sampled for them means nothing.
        given = on_device(pad(torch.cat(columns, 1), (0, 0, 0, rows - len(contexts))), self._device)
        key = rows, span, None if how is None else (how.scaled, how.greedy)
        results = graphs.run(key, self.cache.moves, given, partial(self._sampled_step, span, how))
        return tuple(result[: len(contexts)] for result in results)

    def _sampled_step(self, span: int, how: Draws | None, given: Tensor) -> tuple[Tensor, ...]:
        """From the columns of `_last` and those of `how.numbers`: logits, and what is sampled from them."""
        logits = self._step(span, 0, given[:, :2].long())
        return (logits,) if how is None else (logits, sample(logits, how, given[:, 2:]))

    def _step(self, span: int, trunk: int, last: Tensor) -> Tensor:
        """Logits after the last ids, which come with their positions, [rows, 2]."""
        ids, positions = last.split(1, 1)
        logits = self._run(0, ids, positions, span, logits=True, trunk=trunk)
        assert logits is not None
        return logits

    def _run(
        self, first: int, ids: Tensor, positions: Tensor, span: int, logits: bool, trunk: int = 0
    ) -> Tensor | None:
        self.cache.place(first, positions, span)
        return self.forward(ids, positions, logits, trunk)


def _last(contexts: Sequence[Sequence[int]]) -> Tensor:
    """The last id of each context and its position, [rows, 2]."""
    return torch.tensor([[context[-1], len(context) - 1] for context in contexts])


class WholeDecoder(Decoder):
    """Reads whole contexts in every step, in micro-batches of about `tokens_per_pass` padded tokens."""

    tokens_per_pass = 4096

    def __init__(self, module: PreTrainedModel) -> None:
        self._module = module

    def next_logits(self, contexts: Sequence[Sequence[int]], trunk: int = 0) -> Tensor:
        rows = max(1, self.tokens_per_pass // max(len(context) for context in contexts))
        parts = [self._pass(contexts[start : start + rows]) for start in range(0, len(contexts), rows)]
        return torch.cat(parts)

    def _pass(self, contexts: Sequence[Sequence[int]]) -> Tensor:
        return last_logits(self._module, contexts)


def last_logits(module: Any, contexts: Sequence[Sequence[int]]) -> Tensor:
    """Logits [rows, vocabulary] after each context, by one pass without a cache, padded on the right."""
    device = module.device
    lengths = torch.tensor([len(context) for context in contexts], device=device)
    width = int(lengths.max())
    ids = torch.tensor([[*context, *[0] * (width - len(context))] for context in contexts], device=device)
    mask = (torch.arange(width, device=device) < lengths[:, None]).long()
    logits = module(input_ids=ids, attention_mask=mask, use_cache=False).logits
    return logits[torch.arange(len(contexts), device=device), lengths - 1]
