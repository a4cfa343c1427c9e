"""Workers: processes that play episodes of a function, so that the training does not wait for their interpreter."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from concurrent.futures import Future
from dataclasses import asdict
from functools import cache
from itertools import count
from typing import Any

import httpx2

from agent_r1_core import EpisodeError
from agent_r1_core.helper import Helper, HelperGone
from agent_r1_gateway.program import Ended, Episode, Program, Result, function_named, play

_START = "from agent_r1_gateway.worker import serve; serve()"
_turn = count()


class WorkerFunction(Program):
    """A function that plays in one of `workers` processes, which serve all episodes in turn, each in a thread."""

    def __init__(self, function: str, workers: int) -> None:
        self._worker = _worker(function, next(_turn) % workers)

    async def start(self, task: dict[str, Any], address: str, key: str, ended: Ended) -> None:
        def done(answer: Future[Any]) -> None:
            try:
                ended(Result(**answer.result()))
            except HelperGone as error:
                ended(EpisodeError(f"the process of the function is gone: {error}"))
            except Exception as error:
                ended(EpisodeError(str(error)))

        begun = await asyncio.to_thread(self._worker.begin, "play", task=task, address=address, key=key)
        begun.add_done_callback(done)


@cache
def _worker(function: str, number: int) -> Helper:
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return Helper([sys.executable, "-c", _START, function], {**os.environ, "PYTHONPATH": path}, shows_errors=True)


def serve() -> None:
    """Play what is asked on standard input; what the function prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)
    writing = threading.Lock()

    def begin(asked: dict[str, Any]) -> None:
        address, key = asked["address"], asked["key"]

        def reward(value: float) -> None:
            httpx2.post(f"{address}/reward", headers={"x-api-key": key}, json={"reward": value}).raise_for_status()

        def ended(result: Result | Exception) -> None:
            said = {"error": str(result)} if isinstance(result, Exception) else {"value": asdict(result)}
            with writing:
                answers.write(json.dumps({"id": asked["id"], **said}).encode() + b"\n")

        try:
            function = function_named(sys.argv[1])
        except EpisodeError as error:
            return ended(error)
        return play(function, Episode(asked["task"], f"{address}/v1", address, key, reward), ended)

    for line in sys.stdin.buffer:
        begin(json.loads(line))
    os._exit(0)  # threads may still play
