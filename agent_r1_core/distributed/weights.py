"""Weights as arrays that Ray passes on without copying: numpy knows no bfloat16, so bytes travel with their type."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy
import torch
from torch import Tensor

Arrays = dict[str, tuple[numpy.ndarray, str]]
"""Bits by the weight's name, as integers where numpy lacks the type, and the type's name."""

_BITS = {torch.bfloat16: torch.int16}


def to_arrays(weights: Mapping[str, Tensor], dtype: str) -> Arrays:
    """Weights on the CPU in the precision of the engines that get them."""
    kind = getattr(torch, dtype)
    arrays: Arrays = {}
    for name, tensor in weights.items():
        low = tensor.detach().to("cpu", kind).contiguous()
        arrays[name] = low.view(_BITS.get(kind, kind)).numpy(), dtype
    return arrays


def to_tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    """The weights again; they may not be written to, since others read the same memory."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return {name: torch.from_numpy(bits).view(getattr(torch, dtype)) for name, (bits, dtype) in arrays.items()}
