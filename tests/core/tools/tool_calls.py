"""Calls of tools, between the opening of their runner and its end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agent_r1_core import Passage, Task, ToolCall, ToolContext, ToolResources
from agent_r1_core.tools.tool_runner import ToolRunner

RESOURCES = ToolResources("", corpora={"train": lambda: [Passage("Karimo", "A poet."), Passage("Tavelo", "A town.")]})


def context(turn: int = 0, seed: int = 1) -> ToolContext:
    return ToolContext("episode", turn, Task("task", "Where?", ("Tavelo",)), random.Random(seed))


@asynccontextmanager
async def opened(runner: ToolRunner) -> AsyncIterator[ToolRunner]:
    await runner.start(RESOURCES)
    try:
        yield runner
    finally:
        await runner.close()


def run(runner: ToolRunner, *calls: tuple[str, dict[str, Any]], shared: ToolContext | None = None) -> list[Any]:
    """Start, call at once, close; each call has a context of its own, unless they share one."""

    async def work() -> list[Any]:
        async with opened(runner):
            return list(await asyncio.gather(*(runner.call(ToolCall(*call), shared or context()) for call in calls)))

    return asyncio.run(work())
