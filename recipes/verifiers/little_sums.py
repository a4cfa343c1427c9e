"""Sums below ten, as a task set of verifiers."""

from collections.abc import Iterator

import verifiers.v1 as vf


class Sum(vf.TaskData):
    total: int


class SumTask(vf.Task[Sum]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.strip() == str(self.data.total))

    @vf.reward(weight=0.5)
    async def number(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.strip().isdigit())


class SumsConfig(vf.TasksetConfig):
    most: int = 9


class LittleSums(vf.Taskset[SumTask, SumsConfig]):
    def load(self) -> Iterator[SumTask]:
        for a in range(self.config.most + 1):
            for b in range(self.config.most + 1):
                yield SumTask(Sum(prompt=f"What is {a} + {b}?", total=a + b), self.config.task)


__all__ = ["LittleSums"]
