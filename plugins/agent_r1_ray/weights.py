"""Weights as arrays that Ray passes on without copying: numpy knows no bfloat16, so bytes travel with their type.

They travel in parts, each an object in Ray's store, so that whoever sends them holds no second copy of a large model.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor

Arrays = dict[str, tuple[numpy.ndarray, str]]
"""Bits by the weight's name, as integers where numpy lacks the type, and the type's name."""

_BITS = {torch.bfloat16: torch.int16}
_PART = 1 << 28
"""Bytes after which a part is full; the tensor that fills it may be larger."""


def in_parts(weights: Iterable[tuple[str, Tensor]], dtype: str, full: int = _PART) -> Iterator[Arrays]:
    """Weights on the CPU in the precision of the engines that get them, part by part; a tensor is asked for when it is
    the next in a part."""
    kind = getattr(torch, dtype)
    part: Arrays = {}
    size = 0
    for name, tensor in weights:
        low = tensor.detach().to("cpu", kind).contiguous()
        part[name] = low.view(_BITS.get(kind, kind)).numpy(), dtype
        size += low.nbytes
        if size >= full:
            yield part
            part, size = {}, 0
    if part:
        yield part


def to_tensors(parts: Iterable[Mapping[str, Any]]) -> dict[str, Tensor]:
    """The weights again; they may not be written to, since others read the same memory."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return {
            name: torch.from_numpy(bits).view(getattr(torch, dtype))
            for part in parts
            for name, (bits, dtype) in part.items()
        }
