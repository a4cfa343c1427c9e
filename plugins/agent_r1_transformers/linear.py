"""Linear layers of a lean decoder, several side by side in one product.

On a CPU with oneDNN the product reads a second copy of the weights, in oneDNN's own layout: torch's ordinary product
rearranges the weights anew in every call, which takes up to a third of a decoding step. Small models, whose weights
stay in the processor's cache, gain nothing, and for large ones the copy would be too much: they have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LEAST, _MOST = 2**26, 2**32
"""Bytes of a model's weights between which they are copied."""


def packs(module: PreTrainedModel) -> bool:
    """Whether to hold the weights of a model in oneDNN's layout as well."""
    if module.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    fast = module.dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return fast and _LEAST <= sum(parameter.nbytes for parameter in module.parameters()) <= _MOST


class Linear:
    """The layers' outputs, one after the other in the last dimension.

    The parameters of several layers become views of one matrix, so nothing is stored twice for that.
    """

    def __init__(self, *layers: nn.Linear, packed: bool) -> None:
        self._weight, self._bias = _fused(layers) if len(layers) > 1 else (layers[0].weight, layers[0].bias)
        self._packs = packed
        self._packed: Tensor | None = None
        self.renew()

    def renew(self) -> None:
        """Take over the weights as the layers now have them."""
        if self._packs:
            self._packed = torch.ops.mkldnn._reorder_linear_weight.default(self._weight.detach())

    def __call__(self, x: Tensor) -> Tensor:
        if self._packed is None:
            return F.linear(x, self._weight, self._bias)
        result: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, self._packed, self._bias, "none", [], "")
        return result

    def after(self, start: int, x: Tensor) -> Tensor:
        """The outputs from place `start` on."""
        return F.linear(x, self._weight[start:], None if self._bias is None else self._bias[start:])


def _fused(layers: tuple[nn.Linear, ...]) -> tuple[Tensor, Tensor | None]:
    """One matrix and bias of several linear layers, whose parameters become views of it."""
    weight = torch.cat([layer.weight.data for layer in layers])
    biases: list[Any] = [layer.bias for layer in layers]
    bias = None if biases[0] is None else torch.cat([layer_bias.data for layer_bias in biases])
    start = 0
    for layer in layers:
        stop = start + layer.out_features
        layer.weight.data = weight[start:stop]
        if bias is not None:
            layer.bias.data = bias[start:stop]
        start = stop
    return weight, bias
