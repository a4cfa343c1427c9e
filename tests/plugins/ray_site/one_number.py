"""Workers of a run whose weights are one number, for tests of how weights travel; Ray's processes import them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import ray
import torch
from agent_r1_ray.direct import Publisher, Weights
from agent_r1_ray.rank import LearnerActor
from agent_r1_ray.rollout_worker import RolloutActor
from torch import Tensor

ROWS = 25_000_000
"""Of two numbers of two bytes: what takes long enough to be caught in the middle of it."""


class Rank(LearnerActor):
    """A learner worker whose half of the weights is one number everywhere."""

    def __init__(self, rank: int) -> None:
        self.rows, self.first = torch.zeros(ROWS // 2, 2, dtype=torch.bfloat16), rank * ROWS // 2
        self._publisher = Publisher(lambda: [("w", torch.Size([ROWS, 2]), self.first, self.rows)], "bfloat16")

    def become(self, number: int) -> None:
        self.rows.fill_(number)


class Host:
    """Stands for the engine: says the least and the greatest number that it has got."""

    def __init__(self) -> None:
        self.got: set[float] = set()

    async def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        self.got = {float(end) for end in weights["w"].aminmax()}

    async def hand_over(self) -> Host:
        return self


class Reader(RolloutActor):
    """A rollout worker whose targets others can see in a file."""

    def __init__(self, file: str) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self._host, self._facts = Host(), {}  # type: ignore[assignment]
        self._weights = Weights(partial(_in_file, file))

    async def got(self) -> set[float]:
        host: Any = self._host
        return set(host.got)


def _in_file(file: str, sizes: Sequence[int], dtype: str) -> list[Tensor]:
    room = torch.from_file(file, shared=True, size=sum(sizes), dtype=getattr(torch, dtype))
    ray.experimental.register_nixl_memory(room)
    return list(room.split(list(sizes)))
