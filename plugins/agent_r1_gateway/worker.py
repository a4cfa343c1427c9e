"""Worker: a process that plays episodes of a function, so that the training does not wait for its interpreter.

Both sides write JSON, a line each: a task with a number, and the function's result with that number. A worker ends when
its standard input does, and so with the training process.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from itertools import count
from typing import Any

import httpx2

from agent_r1_core import EpisodeError
from agent_r1_gateway.program import Ended, Episode, Result, function_named, play

_START = "from agent_r1_gateway.worker import serve; serve()"


class Worker:
    """One process, in which episodes play a function, each in a thread."""

    def __init__(self, function: str) -> None:
        self._playing: dict[int, Ended] = {}
        self._numbers = count()
        self._writing = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)},
            start_new_session=True,  # Ctrl-C is for the training, which ends the worker
        )
        threading.Thread(target=self._listen, name="agent-r1 worker", daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def play(self, task: dict[str, Any], address: str, key: str, ended: Ended) -> None:
        """Begin an episode; `ended` is called in another thread.

        Raises:
            EpisodeError: the process has ended.
        """
        assert self._process.stdin is not None
        number = next(self._numbers)
        line = json.dumps({"number": number, "task": task, "address": address, "key": key}).encode() + b"\n"
        self._playing[number] = ended
        try:
            with self._writing:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except OSError:
            self._end_all()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            error = said.get("error")
            self._playing.pop(said["number"])(Result(**said["result"]) if error is None else EpisodeError(error))
        self._end_all()

    def _end_all(self) -> None:
        """The process has ended, or will not read any more."""
        self._process.kill()
        code = self._process.wait()
        while self._playing:
            _, ended = self._playing.popitem()
            ended(EpisodeError(f"the process of the function ended with exit code {code}"))


def serve() -> None:
    """Play what is asked on standard input; what the function prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)
    writing = threading.Lock()

    def begin(asked: dict[str, Any]) -> None:
        def reward(value: float) -> None:
            headers = {"x-api-key": asked["key"]}
            httpx2.post(f"{asked['address']}/reward", headers=headers, json={"reward": value}).raise_for_status()

        def ended(result: Result | Exception) -> None:
            said = {"error": str(result)} if isinstance(result, Exception) else {"result": asdict(result)}
            with writing:
                answers.write(json.dumps({"number": asked["number"], **said}).encode() + b"\n")

        try:
            function = function_named(sys.argv[1])
        except EpisodeError as error:
            return ended(error)
        address = asked["address"]
        return play(function, Episode(asked["task"], f"{address}/v1", address, asked["key"], reward), ended)

    for line in sys.stdin.buffer:
        begin(json.loads(line))
    os._exit(0)  # threads may still play


_shared: dict[tuple[str, int], Worker] = {}
_turn = count()
_sharing = threading.Lock()


class WorkerFunction:
    """A function that plays in one of `workers` processes; they serve all episodes, one after the other."""

    def __init__(self, function: str, workers: int) -> None:
        self._key = (function, next(_turn) % workers)

    async def start(self, task: dict[str, Any], address: str, key: str, ended: Ended) -> None:
        await asyncio.to_thread(self._worker().play, task, address, key, ended)

    def _worker(self) -> Worker:
        """Started when it is first asked for; a new one where it has ended."""
        with _sharing:
            worker = _shared.get(self._key)
            if worker is None or not worker.alive:
                worker = _shared[self._key] = Worker(self._key[0])
            return worker

    def output(self) -> str:
        return ""

    async def stop(self) -> None:
        return None
