"""Attention of rows with a common prefix: its keys and values are read once for all rows.

A step that samples reads every row's keys and values, which takes most of its time on a CPU. For the common prefix
(system prompt, tools, question) one matrix product reads them once, as in Hydragen (arXiv 2402.05099), but with one
softmax, since the attention matrix of a few new ids is small.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROWS, _TRUNK = 16, 32
"""Fewest rows and shared ids for which it pays."""


def trunk_pays(rows: int, trunk: int, span: int, device: torch.device) -> bool:
    """Whether it is faster than torch's fused attention: on a CPU, where the trunk is at least half of what is read."""
    return device.type == "cpu" and rows >= _ROWS and trunk >= _TRUNK and 2 * trunk >= span


def attend_along_trunk(query: Tensor, keys: Tensor, values: Tensor, unseen: Tensor, trunk: int) -> Tensor:
    """Softmax attention, computed in float32.

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
