"""Weights on their way from the learner to rollout workers: in parts, bit for bit, all of them or none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from agent_r1_ray.weights import in_parts, to_tensors
from torch import Tensor


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_they_come_bit_for_bit_and_are_asked_for_part_by_part(dtype: str) -> None:
    kind = getattr(torch, dtype)
    weights = {f"row {number}": torch.randn(10) for number in range(5)} | {"turned": torch.randn(40, 3).t()}
    asked: list[str] = []

    def each() -> Iterator[tuple[str, Tensor]]:
        for name, tensor in weights.items():
            asked.append(name)
            yield name, tensor

    coming = in_parts(each(), dtype, full=20 * kind.itemsize)
    parts = [next(coming)]
    assert asked == ["row 0", "row 1"], "no more than the first part is in memory"
    parts += coming
    assert [len(part) for part in parts] == [2, 2, 2], "the last one is full of a tensor larger than it"
    arrived = to_tensors(parts)
    assert list(arrived) == list(weights)
    for name, tensor in weights.items():
        assert arrived[name].dtype == kind
        assert torch.equal(arrived[name], tensor.to(kind))
