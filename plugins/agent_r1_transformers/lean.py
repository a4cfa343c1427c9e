"""Computes Llama-like models (Llama, Qwen2, Qwen3) directly, in few large operations, so that small models are fast.

The module's own parameters become views of fused matrices (linear.py). Attention folds the query heads that share a key
head into rows, which avoids repeating keys. Formulas and precision are those of the transformers modules; the engine
checks the agreement at start.

A step that samples reads every row's keys and values, which takes most of its time on a CPU. For a common prefix of the
rows (system prompt, tools, question) one matrix product reads them once, as in Hydragen (arXiv 2402.05099), but with
one softmax, since the attention matrix of a few new ids is small.

Where there are kernels they do the same in fewer passes over memory: norms, the activation, and all of a step's
attention between its two matrix products, in which each row reads no further than its own last place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agent_r1_core.kernels import Kernels, Norm, kernels, switched_on
from agent_r1_core.kernels.compiled import Compiled
from agent_r1_transformers.cache import LayerShape, RowCache
from agent_r1_transformers.decoder import SlotDecoder
from agent_r1_transformers.linear import Linear

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODEL_TYPES = ("llama", "qwen2", "qwen3")
_TABLE = 1024
"""Rotary tables grow in multiples of this many positions."""
_ROWS, _TRUNK = 16, 32
"""Fewest rows and shared ids for which it pays."""


def suits(module: PreTrainedModel) -> bool:
    """Whether this decoder supports the model."""
    config: Any = module.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type in MODEL_TYPES
        and config.hidden_act == "silu"
        and rope.get("rope_type", "default") in ("default", "linear", "llama3", "yarn")
    )


def suited_kernels(module: PreTrainedModel, shapes: list[LayerShape]) -> Kernels | Compiled | None:
    """The kernels, where there are any that can compute the model."""
    if module.device.type == "cuda":
        return Compiled() if switched_on() else None
    fit = module.device.type == "cpu" and module.dtype == torch.float32 and Kernels.suit(shapes[0].key_width)
    return kernels() if fit else None


@dataclass(frozen=True)
class _Layer:
    norm: nn.Module
    qkv: Linear
    query_norm: nn.Module | None
    key_norm: nn.Module | None
    out: Linear
    mlp_norm: nn.Module
    gate_up: Linear
    down: Linear


_Attention = Callable[[int, _Layer, Tensor], Tensor]
"""Of a layer, by its number: from the normed input to what its output projection gives."""


class LeanDecoder(SlotDecoder):
    """Computes the model from its parameters."""

    def __init__(
        self,
        module: PreTrainedModel,
        shapes: list[LayerShape],
        packed: bool,
        kernels: Kernels | Compiled | None = None,
    ) -> None:
        """`packed`: hold the weights in oneDNN's layout as well; `kernels`: in place of torch's operations."""
        super().__init__(module.device)
        self._kernels = kernels
        self.reads_own_places = kernels is not None
        self.cache = RowCache(shapes, module.dtype, module.device)
        model: Any = module.model
        self._embed = model.embed_tokens
        self._rotary = model.rotary_emb
        self._norm = model.norm
        self._head = Linear(module.get_output_embeddings(), packed=packed)
        self._key_heads = shapes[0].heads
        self._width = shapes[0].key_width
        self._heads = module.config.num_attention_heads
        self._layers = [self._layer(layer, packed) for layer in model.layers]
        self._cos = self._sin = torch.empty(0, self._width, dtype=module.dtype, device=module.device)

    @staticmethod
    def _layer(layer: Any, packed: bool) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return _Layer(
            norm=layer.input_layernorm,
            qkv=Linear(attention.q_proj, attention.k_proj, attention.v_proj, packed=packed),
            query_norm=getattr(attention, "q_norm", None),
            key_norm=getattr(attention, "k_norm", None),
            out=Linear(attention.o_proj, packed=packed),
            mlp_norm=layer.post_attention_layernorm,
            gate_up=Linear(mlp.gate_proj, mlp.up_proj, packed=packed),
            down=Linear(mlp.down_proj, packed=packed),
        )

    def renew(self) -> None:
        for layer in self._layers:
            for linear in (layer.qkv, layer.out, layer.gate_up, layer.down):
                linear.renew()
        self._head.renew()

    def forward(self, ids: Tensor, positions: Tensor, logits: bool, trunk: int) -> Tensor | None:
        hidden, added = self._embed(ids), None
        attend = self._attention(positions, hidden.dtype, trunk)
        for index, layer in enumerate(self._layers):
            hidden, normed = self._add_norm(hidden, added, layer.norm)
            if index == len(self._layers) - 1 and not logits:
                # Reading needs only the last layer's keys and values, not what it would compute from them.
                self._store(index, layer, normed, *self._angles(positions))
                return None
            hidden, normed = self._add_norm(hidden, attend(index, layer, normed), layer.mlp_norm)
            added = layer.down(self._activate(layer.gate_up(normed)))
        return self._head(self._add_norm(hidden, added, self._norm)[1][:, -1])

    def _add_norm(self, hidden: Tensor, added: Tensor | None, norm: Any) -> tuple[Tensor, Tensor]:
        """The sum, and its norm; the sum may take the place of `hidden`."""
        if self._kernels is not None:
            return self._kernels.add_norm(hidden, added, _norm(norm))
        hidden = hidden if added is None else hidden + added
        return hidden, norm(hidden)

    def _activate(self, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, -1)
        if self._kernels is not None:
            return self._kernels.silu_mul(gate, up)
        return F.silu(gate) * up

    def _attention(self, positions: Tensor, dtype: torch.dtype, trunk: int) -> _Attention:
        """What computes the attention of each layer, up to its output, in this pass."""
        rows, new = positions.shape
        self._extend_tables()
        if self._kernels is not None and new == 1:
            return partial(self._attend_by_kernel, self._kernels, positions[:, 0].contiguous(), trunk)
        trunk = trunk if trunk_pays(rows, trunk, self.cache.span, positions.device) else 0
        return partial(self._attend, self._angles(positions), self._unseen(positions, dtype), trunk)

    def _attend_by_kernel(
        self, kernels: Kernels | Compiled, positions: Tensor, trunk: int, index: int, layer: _Layer, x: Tensor
    ) -> Tensor:
        norms = None
        if layer.query_norm is not None and layer.key_norm is not None:
            norms = _norm(layer.query_norm), _norm(layer.key_norm)
        slots, tables = self.cache.slots(index), (self._cos, self._sin)
        return layer.out(kernels.attend(layer.qkv(x), self._heads, norms, tables, positions, *slots, trunk))

    def _unseen(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        """The mask as 0 and -inf for grouped heads, which become further query rows of their key head:
        [rows, 1, group * new, span]."""
        mask = self.seen(positions)
        unseen = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)
        return unseen.repeat(1, 1, self._heads // self._key_heads, 1)

    def _store(self, index: int, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor) -> None:
        mixed = layer.qkv.after(self._heads * self._width, x)
        key, value = mixed.view(*x.shape[:2], 2 * self._key_heads, self._width).chunk(2, 2)
        key = self._turned(key, layer.key_norm, cos, sin)
        self.cache.write(index, key.transpose(1, 2), value.transpose(1, 2))

    def _attend(
        self, angles: tuple[Tensor, Tensor], unseen: Tensor, trunk: int, index: int, layer: _Layer, x: Tensor
    ) -> Tensor:
        rows, new, _ = x.shape
        heads, key_heads = self._heads, self._key_heads
        mixed = layer.qkv(x).view(rows, new, heads + 2 * key_heads, self._width)
        query, key, value = mixed.split([heads, key_heads, key_heads], 2)
        query, key = self._turned(query, layer.query_norm, *angles), self._turned(key, layer.key_norm, *angles)
        keys, values = self.cache.write(index, key.transpose(1, 2), value.transpose(1, 2))
        query = query.transpose(1, 2).reshape(rows, key_heads, heads // key_heads * new, self._width)
        if trunk:
            mixed = attend_along_trunk(query, keys, values, unseen, trunk)
        else:
            mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=unseen)
        mixed = mixed.reshape(rows, heads, new, self._width).transpose(1, 2)
        return layer.out(mixed.reshape(rows, new, heads * self._width))

    def _turned(self, x: Tensor, norm: Any, cos: Tensor, sin: Tensor) -> Tensor:
        """Queries or keys [rows, new, heads, width] after their norm, if they have one, and the rotary embedding."""
        if not isinstance(self._kernels, Compiled):
            return _rotate(x if norm is None else norm(x), cos, sin)
        return self._kernels.turned(x, None if norm is None else _norm(norm), cos, sin)

    def _extend_tables(self) -> None:
        """Cover all places of the cache, so that the tables move with it."""
        if self.cache.places > self._cos.shape[0]:
            places = torch.arange(-(-self.cache.places // _TABLE) * _TABLE, device=self._cos.device)
            cos, sin = self._rotary(self._cos, places[None])
            self._cos, self._sin = cos[0], sin[0]

    def _angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [rows, new, 1, width] of the rotary embedding."""
        return self._cos[positions][:, :, None], self._sin[positions][:, :, None]


def _norm(module: Any) -> Norm:
    return Norm(module.weight, module.variance_epsilon)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding in the half-split layout of transformers (arXiv 2104.09864)."""
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


def trunk_pays(rows: int, trunk: int, span: int, device: torch.device) -> bool:
    """Whether it is faster than torch's fused attention: on a CPU, where the trunk is at least half of what is read."""
    return device.type == "cpu" and rows >= _ROWS and trunk >= _TRUNK and 2 * trunk >= span


def attend_along_trunk(query: Tensor, keys: Tensor, values: Tensor, unseen: Tensor, trunk: int) -> Tensor:
    """Softmax attention of rows with a common prefix, computed in float32; its keys and values are read once.

    Args:
        query: [rows, key heads, new, width].
        keys: [rows, key heads, span, width], whose first `trunk` places are the same in all rows; the values likewise.
        unseen: [rows, 1, new, span], 0 or -inf; 0 within the trunk.
        trunk: less than `span`.

    Returns:
        [rows, key heads, new, width].
    """
    rows, heads, new, width = query.shape
    (trunk_keys, own_keys), (trunk_values, own_values) = (
        (held[0, :, :trunk].float(), held[:, :, trunk:].float()) for held in (keys, values)
    )
    scaled = query.float() * width**-0.5
    scores = scaled.new_empty((*query.shape[:3], keys.shape[2]))
    folded = scaled.transpose(0, 1).reshape(heads, rows * new, width) @ trunk_keys.transpose(1, 2)
    scores[..., :trunk] = folded.view(heads, rows, new, trunk).transpose(0, 1)
    torch.add(scaled @ own_keys.transpose(2, 3), unseen[..., trunk:], out=scores[..., trunk:])
    weights = scores.softmax(-1)
    common = weights[..., :trunk].transpose(0, 1).reshape(heads, rows * new, trunk) @ trunk_values
    own = weights[..., trunk:] @ own_values
    return (own + common.view(heads, rows, new, width).transpose(0, 1)).to(query.dtype)
