"""What does a tool call cost on top of the tool, in a thread and in a process of its own?

    python benchmarks/tool_calls.py

Every row is the median and the 95th percentile of calls of a tool that returns its argument at once: one call after the
other, and many at once, where the time of all is divided by their number.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from typing import Any

import report
from echo import AsyncEcho, Echo

from agent_r1_core import Task, Tool, ToolCall, ToolContext, ToolResources
from agent_r1_core.tools.tool_runner import ToolRunner


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "tool_calls")
    options.add_argument("--calls", type=int, default=2000, help="calls per row")
    options.add_argument("--at-once", type=int, default=64, help="calls at once, in the second figure")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.calls = 100
    return chosen


async def measure(tool: Tool, isolation: Any, calls: int, at_once: int) -> dict[str, Any]:
    """Milliseconds of a call."""
    runner = ToolRunner({tool.name: tool}, isolation={tool.name: isolation}, max_concurrency=at_once)
    call = ToolCall(tool.name, {"text": "Where was Karimo born?"})
    task = Task("task", "Where was Karimo born?")

    def context(number: int) -> ToolContext:
        return ToolContext(f"episode {number}", 0, task, random.Random(number))

    await runner.start(ToolResources(""))
    try:
        alone = []
        for number in range(calls):
            each = context(number)
            begun = time.perf_counter()
            await runner.call(call, each)
            alone.append(1000 * (time.perf_counter() - begun))
        together = []
        for _ in range(max(1, calls // at_once)):
            contexts = [context(number) for number in range(at_once)]
            begun = time.perf_counter()
            await asyncio.gather(*(runner.call(call, each) for each in contexts))
            together.append(1000 * (time.perf_counter() - begun) / at_once)
    finally:
        await runner.close()
    return {
        "tool": tool.name,
        "isolation": isolation,
        "median ms": statistics.median(alone),
        "95 % below ms": statistics.quantiles(alone, n=20)[-1],
        f"ms each, {at_once} at once": statistics.median(together),
    }


def main() -> None:
    options = arguments()
    rows = [
        asyncio.run(measure(tool, isolation, options.calls, options.at_once))
        for tool in (Echo(), AsyncEcho())
        for isolation in ("thread", "process")
    ]
    report.show(f"A tool call, {options.calls} each", rows)
    report.save(options.out, options, {"tool_calls": rows})


if __name__ == "__main__":
    main()
