"""Any transformers model whose layers all keep plain keys and values, run with a ragged row cache in place of its own.

The model gets explicit positions and a ready 4-D mask, so it does not see padding and stale places. Sliding windows and
recurrent states are refused here; the trial at start finds models that ignore the positions or the mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, DynamicLayer

from agent_r1_transformers.cache import LayerShape, RowCache
from agent_r1_transformers.decoder import SlotDecoder

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def layer_shapes(module: PreTrainedModel) -> list[LayerShape] | None:
    """What each layer keeps per token, found by running one id; None if a layer keeps anything but plain keys and
    values of all tokens."""
    ids = torch.zeros(1, 1, dtype=torch.long, device=module.device)
    cache = getattr(module(input_ids=ids, use_cache=True), "past_key_values", None)
    if type(cache) is not DynamicCache or any(type(layer) is not DynamicLayer for layer in cache.layers):
        return None
    layers: list[Any] = cache.layers
    if any(layer.keys is None or layer.keys.ndim != 4 for layer in layers):
        return None
    return [LayerShape(layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3]) for layer in layers]


class _SlotLayer(CacheLayerMixin):
    """One layer of a RowCache with the interface of a transformers cache layer."""

    def __init__(self, cache: RowCache, layer: int) -> None:
        super().__init__()
        self._cache = cache
        self._layer = layer
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the row cache grows by itself."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return self._cache.write(self._layer, key_states, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._cache.span, 0

    def get_seq_length(self) -> int:
        return self._cache.span

    def get_max_length(self) -> int:
        return -1


class CachedDecoder(SlotDecoder):
    """Runs the module itself."""

    def __init__(self, module: PreTrainedModel, shapes: list[LayerShape]) -> None:
        super().__init__(module.device)
        self._module: Any = module
        self.cache = RowCache(shapes, module.dtype, module.device)
        self._held = Cache(layers=[_SlotLayer(self.cache, layer) for layer in range(len(shapes))])
        self._additive = module.config._attn_implementation != "sdpa"

    def forward(self, ids: Tensor, positions: Tensor, logits: bool, trunk: int) -> Tensor | None:
        mask = self.seen(positions)
        if self._additive:
            lowest = torch.finfo(self._module.dtype).min
            mask = torch.zeros(mask.shape, dtype=self._module.dtype, device=mask.device).masked_fill_(~mask, lowest)
        result = self._module(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=self._held,
            use_cache=True,
            logits_to_keep=1,
        )
        return result.logits[:, -1] if logits else None
