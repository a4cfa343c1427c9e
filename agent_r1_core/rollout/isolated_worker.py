"""The worker process of IsolatedTool: `python -m agent_r1_core.rollout.isolated_worker FD` serves one tool over a pipe.

The parent kills a call that outlives its deadline. If the parent is gone, a system alarm does it, which also ends a
call that never releases the interpreter.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
import random
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from agent_r1_core.contracts.tasks import Passage
from agent_r1_core.contracts.tool import Tool, ToolContext, ToolResources
from agent_r1_core.rollout.wording import describe_error, error_text, to_text
from agent_r1_core.trajectory import Task

GRACE_SECONDS = 5.0
"""Seconds that the parent has beyond the deadline."""


def main(descriptor: int) -> None:
    """Open the tool that the first message names, then answer calls until the connection ends."""
    connection = Connection(descriptor)
    try:
        hello = json.loads(connection.recv_bytes())
        try:
            tool = _load(hello["target"])
            tool.open(_resources(hello["resources"]))
        except BaseException as error:
            name = hello["target"]["name"]
            reason = f"tool {name} cannot be opened: {describe_error(error)}; check its open()"
            _reply(connection, {"error": reason})
            return
        _reply(connection, {"error": ""})
        while True:
            _reply(connection, _serve(tool, json.loads(connection.recv_bytes())))
    except (EOFError, OSError):
        return


def _load(target: dict[str, Any]) -> Tool:
    try:
        module = importlib.import_module(target["module"])
    except ModuleNotFoundError:
        if target["file"] is None:
            raise
        spec = importlib.util.spec_from_file_location(target["module"], target["file"])
        if spec is None or spec.loader is None:
            raise
        module = importlib.util.module_from_spec(spec)
        sys.modules[target["module"]] = module
        spec.loader.exec_module(module)
    cls: Any = module
    for part in target["qualname"].split("."):
        cls = getattr(cls, part)
    tool: Tool = cls(cls.Config(**target["config"]))
    tool.name = target["name"]
    return tool


def _resources(described: dict[str, Any]) -> ToolResources:
    corpora = {name: partial(_passages, path) for name, path in described["corpora"].items()}
    return ToolResources(described["cache_dir"], dict(corpora), described["own"])


def _passages(path: str) -> Iterator[Passage]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield Passage(**json.loads(line))


def _serve(tool: Tool, message: dict[str, Any]) -> dict[str, Any]:
    """Run one call."""
    signal.setitimer(signal.ITIMER_REAL, message["timeout"] + GRACE_SECONDS)
    task = message["task"]
    context = ToolContext(
        episode=message["episode"],
        turn=message["turn"],
        task=Task(**{**task, "answers": tuple(task["answers"])}),
        rng=random.Random(message["seed"]),
        state=message["state"],
        deadline=time.monotonic() + message["timeout"],
    )
    try:
        value = tool.run(tool.Arguments.model_validate(message["arguments"]), context)
        reply = {"text": to_text(asyncio.run(_wait(value)) if inspect.isawaitable(value) else value), "error": False}
        json.dumps([context.state, context.metrics])
    except BaseException as error:
        return {"text": error_text(tool.name, error), "error": True, "state": message["state"], "metrics": {}}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {**reply, "state": context.state, "metrics": context.metrics}


async def _wait(value: Any) -> Any:
    return await value


def _reply(connection: Connection, value: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps(value).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
