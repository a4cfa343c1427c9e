"""IsolatedTool: runs a tool in processes of its own, each killed at its call's deadline.

Processes exchange only names, configuration and JSON: the other process imports the tool again, reads its corpora from
files, and gets and returns the episode's `state`, which must be JSON-able. Needs a POSIX system.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from agent_r1_core.contracts.tool import Tool, ToolContext, ToolResources
from agent_r1_core.errors import ConfigError, ToolError
from agent_r1_core.rollout.threads import CallTimeout, ThreadPool

MAX_PROCESSES = 32
"""Processes of one tool. They start on demand; a call that finds none free waits, and its time-out does not count."""
START_SECONDS = 300.0
"""Time for a process to import and open the tool."""


def describe_target(tool: Tool) -> dict[str, Any]:
    """Where another process finds the tool, and its configuration.

    Raises:
        ConfigError: the tool cannot be imported by name.
    """
    cls = type(tool)
    module = sys.modules.get(cls.__module__)
    target: Any = module
    for part in cls.__qualname__.split("."):
        target = getattr(target, part, None)
    if target is not cls or cls.__module__ == "__main__":
        raise ConfigError(
            f"tool {tool.name} is defined in {cls.__module__}.{cls.__qualname__}, where no other process finds it; "
            "move it into a module, or set its isolation to thread"
        )
    return {
        "module": cls.__module__,
        "file": getattr(module, "__file__", None),
        "qualname": cls.__qualname__,
        "name": tool.name,
        "config": tool.config.model_dump(mode="json"),
    }


def write_corpora(corpora: Mapping[str, Callable[[], Iterable[Any]]], folder: Path) -> dict[str, str]:
    """Write each corpus to a JSON Lines file in the folder; returns the files by the corpora's names."""
    files = {}
    for index, (name, load) in enumerate(corpora.items()):
        path = folder / f"corpus_{index}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for passage in load() or ():
                file.write(json.dumps(asdict(passage)) + "\n")
        files[name] = str(path)
    return files


class IsolatedTool:
    """Calls a tool in other processes."""

    def __init__(self, tool: Tool, width: int) -> None:
        self.killed = 0
        """Processes that were killed at a deadline."""
        self._target = describe_target(tool)
        self._threads = ThreadPool(min(width, MAX_PROCESSES))
        self._resources: dict[str, Any] = {}
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()

    async def start(self, resources: ToolResources, corpora: Mapping[str, str]) -> None:
        """Start the first process, so that a tool that cannot be opened fails at once.

        Raises:
            ToolError: it cannot be opened.
        """
        self._resources = {"cache_dir": resources.cache_dir, "corpora": dict(corpora), "own": resources.own}
        self._idle.append(await self._threads.run(self._start_process))

    async def call(self, arguments: Mapping[str, Any], context: ToolContext, timeout: float) -> tuple[str, bool]:
        """Run the tool; returns its text and whether that is an error.

        Raises:
            CallTimeout: it did not answer in time; its process was killed.
        """
        message = {
            "arguments": dict(arguments),
            "episode": context.episode,
            "turn": context.turn,
            "task": asdict(context.task),
            "seed": context.rng.getrandbits(63),
            "state": context.state,
            "timeout": timeout,
        }
        packed = json.dumps(message).encode()
        reply = json.loads(await self._threads.run(lambda: self._exchange(packed, timeout)))
        _apply_changes(context.state, json.loads(packed)["state"], reply["state"])
        context.metrics.update(reply["metrics"])
        return reply["text"], reply["error"]

    def close(self) -> None:
        """Kill every process."""
        for process in list(self._all):
            process.kill()
        self._all.clear()
        self._idle.clear()
        self._threads.close()

    def _start_process(self) -> _Process:
        process = _Process({"target": self._target, "resources": self._resources})
        self._all.add(process)
        return process

    def _exchange(self, packed: bytes, timeout: float) -> bytes:
        """Send a call to a free process and wait for the reply, in a thread."""
        try:
            process = self._idle.pop()
        except IndexError:
            process = self._start_process()
        try:
            reply = process.exchange(packed, timeout)
        except BaseException as error:
            self._all.discard(process)
            process.kill()
            self.killed += isinstance(error, CallTimeout)
            raise
        self._idle.append(process)
        return reply


def _apply_changes(state: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    """Apply the changes that a call made to the state; keep those of concurrent calls."""
    for key in before.keys() - after.keys():
        state.pop(key, None)
    state.update({key: value for key, value in after.items() if key not in before or before[key] != value})


class _Process:
    """One worker process and the connection to it."""

    def __init__(self, hello: dict[str, Any]) -> None:
        self._connection, other = Pipe()
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "agent_r1_core.rollout.isolated_worker", str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        try:
            ready = json.loads(self.exchange(json.dumps(hello).encode(), START_SECONDS))
        except CallTimeout:
            self.kill()
            name = hello["target"]["name"]
            raise ToolError(f"tool {name} did not open within {START_SECONDS:g} seconds; check its open()") from None
        except BaseException:
            self.kill()
            raise
        if ready["error"]:
            self.kill()
            raise ToolError(ready["error"])

    def exchange(self, packed: bytes, timeout: float) -> bytes:
        """Send a message and wait for its reply.

        Raises:
            CallTimeout: no reply came in time.
        """
        try:
            self._connection.send_bytes(packed)
            if not self._connection.poll(timeout):
                raise CallTimeout
            return self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise RuntimeError("its process died") from error

    def kill(self) -> None:
        """End the process and its children at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()
