"""Walks a short run from one file-system call to the next: at each it is killed, or the call fails, and a resume must
leave what an undisturbed run leaves, bit for bit. SQLite is tested like this.

Every fifth resume is killed at one of its calls as well. The calls are those of Python, so that what C and Rust code
writes is not counted. That has to be flushed to the disk by a call that is: a kill there cuts the file in half, as one
during the writing would. A kill at a call that writes leaves half of the bytes. A failing call changes nothing, and the
next one works again.
"""

from __future__ import annotations

import builtins
import errno
import io
import multiprocessing
import os
import random
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from attacks.kills import arguments, differences, fingerprint, last_words
from attacks.outcome import EXACT, Outcome, Plan

from agent_r1_core.runs.files import TEMPORARY

SETTINGS = (
    *EXACT,
    *("tasks.train.size=4", "tasks.eval.size=1", "env.max_turns=2", "engine.max_new_tokens=12"),
    *("training.steps=2", "training.tasks_per_step=1", "training.samples_per_task=2"),
    *("evaluation={every: 1, at_start: false}", "checkpoint={every: 1, keep: 1, background: false}"),
)
PATIENCE = 120.0
"""Seconds that a command may take."""
AGAIN = 5
"""Of so many resumes one is killed."""
PRELOAD = (
    *("agent_r1_transformers.engine", "agent_r1_core.training.trainer", "agent_r1_core.learning.learner"),
    *("agent_r1_wiki_search.tool", "transformers.models.auto.modeling_auto"),
    "transformers.models.qwen2.modeling_qwen2",
)
"""What a run imports for seconds; a fork has it at once."""
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
FAULTS = ("kill", *ERRORS)
_NAMED = ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "truncate")
_OPENED = ("write", "pwrite", "ftruncate", "fsync", "sendfile")


@dataclass(frozen=True)
class Fault:
    """What happens, and at which call, from 1 on."""

    kind: str
    at: int


@dataclass(frozen=True)
class Point:
    """A fault of a run, and one of its resume."""

    fault: Fault
    again: Fault | None

    def __str__(self) -> str:
        return f"{self.fault.kind} at call {self.fault.at}" + (f", then at {self.again.at}" if self.again else "")


def walk_crash_points(plan: Plan) -> Outcome:
    """Every call, with every fault; with a share, calls that the seed draws."""
    outcome, walker = Outcome("crash points"), _Walker(plan.folder)
    folder = plan.folder / "whole"
    status = walker.command(folder, None)
    if status != 0:
        outcome.faults.append(f"the undisturbed run ended with status {status}: {last_words(folder)}")
        return outcome
    calls = folder.with_suffix(".trace").read_text().splitlines()
    outcome.counts["calls of a run"] = len(calls)
    rng, expected = random.Random(plan.seed), fingerprint(folder / "run")
    every = [Fault(kind, at) for at in range(1, len(calls) + 1) for kind in FAULTS]
    drawn = sorted(rng.sample(range(len(every)), plan.times(len(every))))
    points = [
        Point(every[index], Fault("kill", rng.randint(1, len(calls) + 1 - every[index].at)) if not at % AGAIN else None)
        for at, index in enumerate(drawn)
    ]
    with ThreadPoolExecutor(plan.workers) as pool:
        walks = pool.map(lambda point: walker.walk(point, expected), points)
        for point, (hits, faults) in zip(points, walks, strict=True):
            for target, reached in hits:
                outcome.attack(target, reached)
            outcome.counts[point.fault.kind] += 1
            outcome.faults += [f"{point} ({calls[point.fault.at - 1]}): {fault}" for fault in faults]
    return outcome


class _Walker:
    """Attacks runs in forks of a process that has imported everything."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload(list(PRELOAD))
        self._lock = threading.Lock()
        """`start` asks all processes how they have ended, which is read once: a thread that came second reads 255."""

    def walk(self, point: Point, expected: dict[str, Any]) -> tuple[list[tuple[str, bool]], list[str]]:
        """Attack a run and its resume, let another resume end it, and compare; returns the targets, with whether they
        were reached, and the faults."""
        folder = self._folder / f"{point.fault.kind}-{point.fault.at}"
        hits, faults = list[tuple[str, bool]](), list[str]()
        for fault, target in ((point.fault, f"a run ({point.fault.kind})"), (point.again, "a resume (kill)")):
            if fault is not None:
                status = self.command(folder, fault)
                hits.append((target, bool(folder.with_suffix(".trace").read_text())))
                faults += _judge(fault, status, folder)
        status = self.command(folder, None)
        if status != 0:
            faults.append(f"its resume ended with status {status}: {last_words(folder)}")
        faults += differences(expected, folder / "run")[:3]
        if not faults:
            shutil.rmtree(folder)
        return hits, faults

    def command(self, folder: Path, fault: Fault | None) -> int | None:
        """Begin the run in a folder, or resume it if it has begun; returns the status, None if it did not end."""
        folder.mkdir(exist_ok=True)
        folder.with_suffix(".trace").unlink(missing_ok=True)
        process = self._forks.Process(target=_train, args=(arguments(folder / "run", SETTINGS), folder, fault))
        with self._lock:
            process.start()
        wait([process.sentinel], PATIENCE)
        with self._lock:
            status = process.exitcode
            if status is None:
                process.kill()
                process.join()
        return status


def _train(arguments: list[str], folder: Path, fault: Fault | None) -> None:
    """The command `train`, in this process, with its files under attack; what it says goes to a file."""
    said = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(said, stream)
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    from agent_r1_cli.main import main

    FaultLayer(folder, fault, folder.with_suffix(".trace")).install()
    sys.argv = ["agent-r1", "train", *arguments]
    main()


def _judge(fault: Fault, status: int | None, folder: Path) -> list[str]:
    """What is wrong with the way in which an attacked command ended."""
    said = folder.with_suffix(".log").read_text(errors="replace")
    sentence = "\nerror: " in f"\n{said}" and "this is unexpected" not in said and "Traceback" not in said
    fine = status == -signal.SIGKILL if fault.kind == "kill" else status == 1 and sentence
    return [] if status == 0 or fine else [f"it ended with status {status}: {last_words(folder)}"]


class FaultLayer:
    """Counts the calls by which this process changes the files of a folder; the n-th one kills the process, or fails as
    on a broken or a full disk. `install` puts it in for good."""

    def __init__(self, folder: Path, fault: Fault | None, trace: Path) -> None:
        """Watch a folder.

        Args:
            trace: a file outside the folder, which gets the name of the call that the fault hit, or without a fault
                those of all calls.
        """
        self._folder, self._fault = f"{folder.resolve()}{os.sep}", fault
        self._lock, self._calls = threading.RLock(), 0
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write, self._truncate = os.write, os.truncate

    def install(self) -> None:
        for name in (*_NAMED, *_OPENED):
            setattr(os, name, self._watched(name, getattr(os, name)))
        opened, raw = os.open, io.open

        def os_open(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self._count("open", _path(path, options.get("dir_fd")))
            return opened(path, flags, *rest, **options)

        def io_open(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if isinstance(file, int) or not set(mode) & set("wax+"):
                return raw(file, mode, *rest, **options)
            self._count("open", _path(file))
            return self._file(file, mode, *rest, **options)

        os.open = os_open
        io.open = builtins.open = io_open

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *rest: Any, **options: Any) -> Any:
            path, tear = _path(first, options.get("dir_fd")), None
            if name == "write":
                tear = lambda: original(first, memoryview(rest[0])[: len(rest[0]) // 2])
            elif name == "fsync" and TEMPORARY in path and os.path.isfile(path):
                tear = lambda: self._truncate(path, os.path.getsize(path) // 2)
            self._count(name, path, tear)
            return original(first, *rest, **options)

        return call

    def _file(self, file: Any, mode: str, buffering: int = -1, *rest: Any, **options: Any) -> Any:
        """A file as `open` makes it, whose writing is counted."""
        layer = self

        class Watched(io.FileIO):
            def write(self, data: Any) -> int:
                half = memoryview(data).cast("B")[: memoryview(data).nbytes // 2]
                layer._count("write", _path(self.fileno()), lambda: layer._write(self.fileno(), half))
                return super().write(data)

        raw = Watched(file, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffer if "b" in mode else io.TextIOWrapper(buffer, *rest, **options)

    def _count(self, name: str, path: str, tear: Callable[[], object] | None = None) -> None:
        """Count a call; if it is the one, do what the fault does."""
        if not path.startswith(self._folder):
            return
        with self._lock:
            self._calls += 1
            if self._fault is None or self._calls == self._fault.at:
                self._write(self._trace, f"{name} {path.removeprefix(self._folder)}\n".encode())
            if self._fault is None or self._calls != self._fault.at:
                return
            if self._fault.kind == "kill":
                if tear is not None:
                    tear()
                os.kill(os.getpid(), signal.SIGKILL)
            number = ERRORS[self._fault.kind]
            raise OSError(number, os.strerror(number), path)


def _path(file: Any, folder: int | None = None) -> str:
    """The absolute path of a file that is given by its descriptor, or by its path, in an open folder where one is."""
    if isinstance(file, int):
        return os.readlink(f"/proc/self/fd/{file}")
    path = os.fsdecode(os.fspath(file))
    return os.path.abspath(path if folder is None else os.path.join(_path(folder), path))
