"""Where commands of a task run: in a sandbox, or in a container of an image.

A container has no network and as much memory as its task says. Whoever its image names as user, commands run as root,
with powers over the container's own files and processes alone. It needs `tar`, `find`, `sleep`, `sh` and `bash` in its
image, and a command that takes the arguments of docker.
"""

from __future__ import annotations

import hashlib
import io
import re
import select
import subprocess
import tarfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from agent_r1_core.sandbox import BoxEnded, BoxTimeout, File, Outcome, is_below
from agent_r1_harbor.folder import MOST_BYTES, WORKDIR, HarborTask

_BUILD = 3600.0
"""Seconds for an image to be built."""
_START = 120.0
"""Seconds for a container to start."""
_ROOT = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
"""Of root's powers, those over files and processes of the container."""
_LIVE = 'while [ "$SECONDS" -lt "$1" ]; do sleep 60; done'
"""A shell, unlike `sleep`, collects processes that others have left; bash counts the seconds of its life."""
_WAIT = 4 * 3600
"""Seconds that a container outlives its task's own, while the policy writes."""
_ENTER = f'place=${{1:-$(pwd)}}; [ "$place" = / ] && place={WORKDIR}; mkdir -p "$place" && echo "$place"'
_BUILT: set[tuple[str, str]] = set()
_BUILDING = threading.Lock()


class Place(Protocol):
    """Commands in one folder, and files in and out; any call may raise BoxEnded or BoxTimeout. `Shell` is one."""

    def run(self, command: str, seconds: float, most: int, environment: Mapping[str, str] | None = None) -> Outcome: ...

    def put(self, folder: str, files: Mapping[str, File]) -> None: ...

    def take(self, folder: str) -> dict[str, File]: ...

    def close(self) -> None: ...


class Container:
    """A container that lives until it is closed; one that a killed process left ends by itself.

    Attributes:
        workdir: the folder of the task: its own, else the image's, else `/app`.
    """

    def __init__(self, command: str, task: HarborTask, memory: int, processes: int) -> None:
        """Build the image, once in this process unless it is prebuilt, and start it."""
        self._command = command
        self._name = f"agent-r1-{uuid.uuid4().hex}"
        image = task.image or self._build(task)
        bounds = [f"--memory={memory}m", f"--memory-swap={memory}m", f"--pids-limit={processes}", "--network=none"]
        powers = ["--user=0", "--cap-drop=ALL", *(f"--cap-add={power}" for power in _ROOT)]
        started = ["run", "--detach", "--rm", f"--name={self._name}", "--stop-timeout=0", *bounds, *powers, image]
        seconds = int(task.agent_seconds + task.verifier_seconds) + _WAIT
        try:
            self._do([*started, "bash", "-c", _LIVE, "bash", str(seconds)], _START)
            self.workdir = _last_line(self._do(["exec", self._name, "sh", "-c", _ENTER, "sh", task.workdir], _START))
        except BaseException:
            self.close()
            raise

    def run(self, command: str, seconds: float, most: int, environment: Mapping[str, str] | None = None) -> Outcome:
        """Run a command with `sh`; what is left of it is killed."""
        variables = [part for name, value in (environment or {}).items() for part in ("--env", f"{name}={value}")]
        place = ["exec", "--workdir", self.workdir, *variables, self._name]
        output, dropped, code = _run([self._command, *place, "sh", "-c", command], b"", seconds, most)
        self._do(["exec", self._name, "sh", "-c", "kill -9 -1 2>/dev/null || true"], _START)
        return Outcome(output.decode("utf-8", "replace"), dropped, code)

    def put(self, folder: str, files: Mapping[str, File]) -> None:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for path, file in files.items():
                member = tarfile.TarInfo(path)
                member.size, member.mode = len(file.content), 0o755 if file.executable else 0o644
                archive.addfile(member, io.BytesIO(file.content))
        self._do(["exec", self._name, "mkdir", "-p", folder], _START)
        self._do(["exec", "--interactive", self._name, "tar", "-xf", "-", "-C", folder], _START, data.getvalue())

    def take(self, folder: str) -> dict[str, File]:
        pack = ["sh", "-c", 'exec tar -cf - -C "$1" . 2>/dev/null', "sh", folder]
        data = self._do(["exec", self._name, *pack], _START, most=2 * MOST_BYTES)
        files: dict[str, File] = {}
        try:
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
                for member in archive:
                    if member.issparse() or member.size < 0:
                        raise BoxEnded("the container sent an archive that stands for more than it holds")
                    path = member.name.removeprefix("./")
                    content = archive.extractfile(member) if member.isreg() else None
                    if content is not None and is_below(path):
                        files[path] = File(content.read(), bool(member.mode & 0o100))
        except tarfile.TarError as error:
            raise BoxEnded("the container sent no archive of its files") from error
        return files

    def close(self) -> None:
        with suppress(BoxEnded, BoxTimeout):
            self._do(["rm", "--force", self._name], _START)

    def _build(self, task: HarborTask) -> str:
        """The name of the image that the task's Dockerfile makes."""
        folder = str((task.folder / "environment").absolute())
        name = re.sub("[^a-z0-9]+", "-", task.folder.name.lower()).strip("-")
        image = f"agent-r1-harbor-{name}-{hashlib.sha256(folder.encode()).hexdigest()[:12]}"
        with _BUILDING:
            if (self._command, image) not in _BUILT:
                self._do(["build", "--quiet", "--tag", image, folder], _BUILD)
                _BUILT.add((self._command, image))
        return image

    def _do(self, arguments: Sequence[str], seconds: float, given: bytes = b"", most: int = 1 << 16) -> bytes:
        output, dropped, code = _run([self._command, *arguments], given, seconds, most)
        if code is None:
            raise BoxTimeout
        if code or dropped:
            raise BoxEnded(f"{self._command} {arguments[0]} failed: {output[-300:].decode(errors='replace')}")
        return output


def _last_line(output: bytes) -> str:
    """Warnings may precede it."""
    return output.decode().strip().rpartition("\n")[2]


def _run(command: Sequence[str], given: bytes, seconds: float, most: int) -> tuple[bytes, int, int | None]:
    """The first bytes of a command's output, how many more there were, and its exit status; None: it took too long."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        rest = memoryview(given)
        kept, size, deadline = bytearray(), 0, time.monotonic() + seconds
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        poll.register(process.stdin, select.POLLOUT)
        try:
            while (left := deadline - time.monotonic()) > 0:
                for descriptor, event in poll.poll(left * 1000):
                    if descriptor == process.stdout.fileno():
                        piece = process.stdout.read(1 << 16)
                        kept += piece[: max(0, most - len(kept))]
                        size += len(piece)
                        if not piece:
                            return bytes(kept), size - len(kept), process.wait(max(0.0, deadline - time.monotonic()))
                    elif rest and event & select.POLLOUT:
                        rest = rest[process.stdin.write(rest[:4096]) or 0 :]
                    else:
                        poll.unregister(process.stdin)
                        process.stdin.close()
        except (subprocess.TimeoutExpired, BrokenPipeError):
            pass
        finally:
            process.kill()
        return bytes(kept), size - len(kept), None
