"""Workers: processes that play episodes of a function, so that the training does not wait for their interpreter."""

from __future__ import annotations

import asyncio
import json
import os
import signal
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
from agent_r1_gateway.reaper import signal_session

_START = "from agent_r1_gateway.worker import serve; serve()"
_turn = count()
_suspects: set[tuple[str, str]] = set()
"""Functions and ids of tasks whose process died while they were played."""
_APART = threading.BoundedSemaphore(8)
"""Episodes that play in processes of their own at once."""


class WorkerFunction(Program):
    """A function that plays in one of `workers` processes, which serve all episodes in turn, each in a thread.

    Where a process dies, all of its episodes fail. Until a task has been played since, it has a process of its own, so
    that an episode that ends its process takes no others along.
    """

    def __init__(self, function: str, workers: int) -> None:
        self._function = function
        self._workers = workers
        self._own: Helper | None = None
        self._stopped = False

    async def start(self, task: dict[str, Any], address: str, key: str, ended: Ended) -> None:
        asked = {"task": task, "address": address, "key": key}
        suspect = (self._function, str(task["id"]))
        if suspect in _suspects:
            threading.Thread(target=self._play_apart, args=(suspect, asked, ended), daemon=True).start()
            return

        def done(answer: Future[Any]) -> None:
            try:
                ended(Result(**answer.result()))
            except HelperGone as error:
                _suspects.add(suspect)
                gone = f"the process of the function is gone: {error}"
                ended(EpisodeError(f"{gone}; its episodes are played again, each in a process of its own"))
            except Exception as error:
                ended(EpisodeError(str(error)))

        worker = _worker(self._function, next(_turn) % self._workers)
        begun = await asyncio.to_thread(worker.begin, "play", **asked)
        begun.add_done_callback(done)

    async def stop(self) -> None:
        """End the process, if it is this episode's own."""
        self._stopped = True
        if self._own is not None:
            await asyncio.to_thread(self._own.close)

    def _play_apart(self, suspect: tuple[str, str], asked: dict[str, Any], ended: Ended) -> None:
        with _APART:
            if self._stopped:
                return
            self._own = _helper(self._function)
            try:
                result: Result | Exception = Result(**self._own.begin("play", **asked).result())
                _suspects.discard(suspect)
            except HelperGone as error:
                result = EpisodeError(f"the function ended its process: {error}; play it as a command, or mend it")
            except Exception as error:
                result = EpisodeError(str(error))
                _suspects.discard(suspect)
            finally:
                self._own.close()
            ended(result)


@cache
def _worker(function: str, number: int) -> Helper:
    return _helper(function)


def _helper(function: str) -> Helper:
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
    signal_session(os.getsid(0), signal.SIGKILL)  # threads may still play, and have started what would live on
