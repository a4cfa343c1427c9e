"""Numbers on their way to a device and back, so that nobody waits for one copy after the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def on_device(numbers: Tensor, device: torch.device) -> Tensor:
    """The numbers on the device; to CUDA from pinned memory, which the copy leaves by itself."""
    if device.type != "cuda" or numbers.is_cuda:
        return numbers.to(device)
    return numbers.pin_memory().to(device, non_blocking=True)


def floats(scalars: Sequence[Tensor]) -> list[float]:
    """Scalars as Python numbers; those of one device come in one copy."""
    found = [0.0] * len(scalars)
    for device in {scalar.device for scalar in scalars}:
        places = [place for place, scalar in enumerate(scalars) if scalar.device == device]
        numbers = torch.stack([scalars[place].double() for place in places]).tolist()
        for place, number in zip(places, numbers, strict=True):
            found[place] = number
    return found
