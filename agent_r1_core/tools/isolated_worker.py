"""A process of IsolatedTool: `python -m agent_r1_core.tools.isolated_worker FD` serves one tool over a socket.

The training process has a call that outlives its deadline killed by this process's keeper, which does so by itself if
the training process is gone. What a tool forks has no connection: it is closed in children, and a copy of this process
that comes out of a call ends there.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import random
import resource
import signal
import socket
import sys
import time
import traceback
from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from agent_r1_core.contracts.tasks import Passage
from agent_r1_core.contracts.tool import Tool, ToolContext, ToolResources
from agent_r1_core.contracts.tool_format import ToolResult
from agent_r1_core.errors import describe_error
from agent_r1_core.opening import open_to_read, read_bytes
from agent_r1_core.tools.answer import call_tool, facts_of, failure_of, result_of
from agent_r1_core.tools.isolated_messages import (
    CLOSE_SECONDS,
    HEADER,
    check_size,
    encode,
    frame,
    pack_rng,
    state_changes,
    unpack_rng,
)
from agent_r1_core.trajectory import Task

_GIB = 1 << 30
_UNCHANGED: dict[str, Any] = {"rng": None, "set": {}, "removed": []}


def main(descriptor: int) -> None:
    """Open the tool that the first message names, then answer calls until the connection ends."""
    process, connection = os.getpid(), socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    os.register_at_fork(after_in_child=connection.close)
    try:
        _serve(connection)
    except OSError:
        pass  # the training process is gone
    except BaseException:
        traceback.print_exc()
    finally:
        if os.getpid() == process:  # no copy that the tool forked
            with contextlib.suppress(Exception):
                sys.stdout.flush()
        os._exit(0)  # the keeper ends whatever the tool left running


def _serve(connection: socket.socket) -> None:
    call, body = receive(connection)
    hello = json.loads(body)
    tool: Tool | None = None
    try:
        _limit(hello["limits"])
        tool = _load(hello["target"])
        tool.open(_resources(**hello["resources"]))
        ready = {"error": "", "facts": facts_of(tool)}
    except BaseException as error:
        reason = f"tool {hello['target']['name']} cannot be opened: {describe_error(error)}; check its open()"
        ready = {"error": reason}
    send(connection, call, encode(ready))
    if tool is None or ready["error"]:
        return
    process = os.getpid()
    try:
        while True:
            call, body = receive(connection)
            reply = _run(tool, json.loads(body), hello["memory"])
            if os.getpid() != process:
                os._exit(0)
            send(connection, call, reply)
    finally:
        _close(tool)


def _close(tool: Tool) -> None:
    """Close the tool, which may take `CLOSE_SECONDS`."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, CLOSE_SECONDS)
    try:
        tool.close()
    except BaseException:
        traceback.print_exc()


def receive(connection: socket.socket) -> tuple[bytes, bytes]:
    """The next message: its call's id and its body; an OSError where the connection ended."""
    call, length = HEADER.unpack(_exactly(connection, HEADER.size))
    return call, _exactly(connection, length)


def send(connection: socket.socket, call: bytes, body: bytes) -> None:
    connection.sendall(frame(call, body))


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        part = connection.recv(min(count - len(received), 1 << 20))
        if not part:
            raise ConnectionResetError("the connection ended")
        received += part
    return bytes(received)


def _limit(limits: Mapping[str, float]) -> None:
    """Let the system refuse more memory, files and bytes per file, and write no core dumps."""
    bounds = {
        resource.RLIMIT_DATA: int(limits["memory"] * _GIB),
        resource.RLIMIT_NOFILE: int(limits["open_files"]),
        resource.RLIMIT_FSIZE: int(limits["file_size"] * _GIB),
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in bounds.items():
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, bound))


def _load(target: dict[str, Any]) -> Tool:
    try:
        module = importlib.import_module(target["module"])
    except ModuleNotFoundError:
        if target["file"] is None:
            raise
        from agent_r1_core.plugins.sources import import_content

        path, content = Path(target["file"]), target["content"]
        module = import_content(target["module"], path, a2b_base64(content) if content else read_bytes(path))
    cls: Any = attrgetter(target["qualname"])(module)
    tool: Tool = cls(cls.Config(**target["config"]))
    tool.name = target["name"]
    return tool


def _resources(corpora: Mapping[str, str], **others: Any) -> ToolResources:
    return ToolResources(corpora={name: partial(_passages, path) for name, path in corpora.items()}, **others)


def _passages(path: str) -> Iterator[Passage]:
    with open_to_read(path) as file:
        for line in file:
            yield Passage(**json.loads(line))


def _run(tool: Tool, message: dict[str, Any], memory: int) -> bytes:
    """Run one call; returns its reply, which may take `memory` bytes in the training process."""
    task, state, rng = message["task"], message["state"], random.Random()
    before = deepcopy(state)
    unpack_rng(rng, message["rng"])
    context = ToolContext(
        episode=message["episode"],
        turn=message["turn"],
        task=Task(**{**task, "answers": tuple(task["answers"])}),
        rng=rng,
        state=state,
        deadline=time.monotonic() + message["timeout"],
    )
    try:
        result = call_tool(tool, message["arguments"], context)
        if type(result) is not ToolResult:
            result = _awaited(tool, result, context)
        packed = pack_rng(rng)
        changed = {"rng": packed if packed != message["rng"] else None, **state_changes(before, state)}
    except BaseException as error:
        result, changed = failure_of(tool, error, context), _UNCHANGED
    reply = encode(asdict(result) | changed)
    try:
        check_size(reply, memory)
    except ValueError as error:
        return encode(asdict(failure_of(tool, error, context)) | _UNCHANGED)
    return reply


def _awaited(tool: Tool, value: Any, context: ToolContext) -> ToolResult:
    try:
        return result_of(tool, _loop().run_until_complete(value), context)
    except BaseException as error:
        return failure_of(tool, error, context)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop of all async calls, so that a connection that one opens serves the next."""
    return asyncio.new_event_loop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
