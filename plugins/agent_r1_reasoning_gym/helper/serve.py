"""The helper of `reasoning_gym`, a program: it makes questions, and scores answers in forks of itself."""

from __future__ import annotations

import gc
import json
import os
import pickle
import resource
import selectors
import signal
import socket
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

OUT = os.dup(1)
os.dup2(2, 1)  # whatever the package prints

import questions  # noqa: E402
import scoring  # noqa: E402

MOST_FORKS = 8
MEMORY = 3 * 2**29
"""Bytes of address space of a fork."""


def say(number: int, **reply: Any) -> None:
    os.write(OUT, json.dumps({"id": number, **reply}).encode() + b"\n")


@dataclass
class Job:
    """An answer to be scored."""

    asked: dict[str, Any]
    entry: Any
    control: bool = False
    """Score the right answer in its place, to see whose fault it was that no score came."""


class Forks:
    """Forks of this process, each of which scores one answer after the other until one is too much for it."""

    def __init__(self, waiting: selectors.BaseSelector) -> None:
        self._selector = waiting
        self._queue: deque[Job] = deque()
        self._jobs: dict[socket.socket, Job | None] = {}

    def add(self, asked: dict[str, Any]) -> None:
        """Score an answer as soon as there is a place."""
        made = asked["made"]
        try:
            _, entry = questions.SETS.entry(made, made["index"])
            if questions.digest(entry["question"]) != made["digest"]:
                raise ValueError("this version of reasoning-gym makes another question; install the one of the run")
        except Exception as error:
            return say(asked["id"], error=str(error))
        self._queue.append(Job(asked, entry))
        return self.advance()

    def advance(self) -> None:
        """Give what waits to forks that are idle, or new."""
        while self._queue:
            idle = next((one for one, job in self._jobs.items() if job is None), None)
            if idle is None and len(self._jobs) >= MOST_FORKS:
                return
            fork = idle or self._start()
            self._jobs[fork] = job = self._queue.popleft()
            with suppress(BrokenPipeError):  # `heard` will know
                fork.sendall(pickle.dumps(job))

    def heard(self, fork: socket.socket) -> None:
        """A fork is ready again, or has ended: then the answer is wrong if the right one can be scored."""
        if fork.recv(1):
            self._jobs[fork] = None
            return self.advance()
        job = self._jobs.pop(fork)
        self._selector.unregister(fork)
        fork.close()
        if job is not None and job.control:
            say(job.asked["id"], error="its scorer does not even come to an end with the right answer")
        elif job is not None:
            self._queue.append(Job(job.asked, job.entry, control=True))
        return self.advance()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            try:
                for other in (*self._jobs, ours):
                    other.close()
                score_all(theirs)
            finally:
                os._exit(0)
        theirs.close()
        self._jobs[ours] = None
        self._selector.register(ours, selectors.EVENT_READ, ours)
        return ours


def score_all(jobs: socket.socket) -> None:
    """Score one answer after the other; a timer of the kernel ends the process that takes too long."""
    for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with jobs.makefile("rb") as received:
        while True:
            job: Job = pickle.load(received)
            _, data_set = questions.SETS.get(job.asked["made"])  # it takes seconds to make some
            signal.setitimer(signal.ITIMER_REAL, job.asked["seconds"])
            say(job.asked["id"], **scored(job, data_set))
            signal.setitimer(signal.ITIMER_REAL, 0)
            jobs.send(b".")


def scored(job: Job, data_set: Any) -> dict[str, Any]:
    """The reply: an answer at which the scorer raises is wrong, if it does not raise at the right one."""
    right = job.entry["answer"]
    tries = [] if job.control else [job.asked["answer"]]
    for text in (*tries, scoring.NONSENSE if right is None else str(right)):
        try:
            value = scoring.score(data_set, job.entry, text, job.asked["partial"])
            return {"value": value if tries and text is tries[0] else 0.0}
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
    return {"error": f"its scorer raises even at the right answer, {said}"}


def answer(asked: dict[str, Any], forks: Forks) -> None:
    if asked["do"] == "score":
        return forks.add(asked)
    try:
        said = {name: asked[name] for name in ("dataset", "options", "seed", "split", "size")}
        whole = json.dumps({"id": asked["id"], "value": questions.make(**said)}).encode() + b"\n"
    except Exception as error:
        return say(asked["id"], error=str(error) or type(error).__name__)
    while whole:
        whole = whole[os.write(OUT, whole) :]
    return None


def main() -> None:
    scoring.run_no_answer()
    gc.collect()
    gc.freeze()  # so that forks copy fewer pages
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ)
    forks, received = Forks(waiting), b""
    while True:
        for key, _ in waiting.select():
            if key.data is not None:
                forks.heard(key.data)
                continue
            received += (new := os.read(0, 1 << 20))
            if not new:
                sys.exit()
            *lines, received = received.split(b"\n")
            for line in lines:
                answer(json.loads(line), forks)


if __name__ == "__main__":
    main()
