"""Sums below ten, as a task set of verifiers whose score of the answers `wait` and `loop` never comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import verifiers.v1 as vf


class Sum(vf.TaskData):
    total: int


class SumTask(vf.Task[Sum]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        said = trace.last_reply.strip()
        if said == "wait":
            await asyncio.sleep(600)
        if said == "raise":
            raise RuntimeError("no sum")
        while said == "loop":
            pass
        return float(said == str(self.data.total))


class SlowSums(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self) -> Iterator[SumTask]:
        for number in range(100):
            a, b = divmod(number, 10)
            yield SumTask(Sum(prompt=f"What is {a} + {b}?", total=a + b), self.config.task)


__all__ = ["SlowSums"]
