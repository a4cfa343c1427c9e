"""Where commands of a task run: in a sandbox, or in a container of an image.

A container has no network and as much memory as its task says. It needs `tar`, `sleep` and `sh` in its image, and a
command that takes the arguments of docker.
"""

from __future__ import annotations

import io
import select
import subprocess
import tarfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from agent_r1_core.sandbox import BoxEnded, BoxTimeout, File, Outcome, is_below
from agent_r1_harbor.folder import MOST_BYTES, HarborTask

_START = 120.0
"""Seconds for a container to start."""


class Place(Protocol):
    """Commands in one folder, and files in and out; any call may raise BoxEnded or BoxTimeout. `Shell` is one."""

    def run(self, command: str, seconds: float, most: int, environment: Mapping[str, str] | None = None) -> Outcome: ...

    def put(self, folder: str, files: Mapping[str, File]) -> None: ...

    def take(self, folder: str) -> dict[str, File]: ...

    def close(self) -> None: ...


class Container:
    """A container that lives until it is closed."""

    def __init__(self, command: str, task: HarborTask, memory: int, processes: int) -> None:
        """Build the image, where there is none, and start it."""
        self._command = command
        image = task.image
        if image is None:
            image = f"agent-r1-harbor-{task.folder.name.lower()}"
            self._do(["build", "--quiet", "--tag", image, str(task.folder / "environment")], 3600.0)
        bounds = [f"--memory={memory}m", f"--pids-limit={processes}", "--cap-drop=ALL", "--network=none"]
        started = self._do(["run", "--detach", "--rm", *bounds, image, "sleep", "infinity"], _START)
        self._name = started.decode().strip()
        self._workdir = task.workdir

    def run(self, command: str, seconds: float, most: int, environment: Mapping[str, str] | None = None) -> Outcome:
        """Run a command with `sh`; what is left of it is killed."""
        variables = [part for name, value in (environment or {}).items() for part in ("--env", f"{name}={value}")]
        place = ["exec", "--workdir", self._workdir, *variables, self._name]
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
        data = self._do(["exec", self._name, "tar", "-cf", "-", "-C", folder, "."], _START, most=2 * MOST_BYTES)
        files: dict[str, File] = {}
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                for member in archive:
                    path, content = (
                        member.name.removeprefix("./"),
                        archive.extractfile(member) if member.isreg() else None,
                    )
                    if content is not None and is_below(path):
                        files[path] = File(content.read(), bool(member.mode & 0o100))
        except tarfile.TarError as error:
            raise BoxEnded("the container sent no archive of its files") from error
        return files

    def close(self) -> None:
        with suppress(BoxEnded, BoxTimeout):
            self._do(["rm", "--force", self._name], _START)

    def _do(self, arguments: Sequence[str], seconds: float, given: bytes = b"", most: int = 1 << 16) -> bytes:
        output, dropped, code = _run([self._command, *arguments], given, seconds, most)
        if code is None:
            raise BoxTimeout
        if code or dropped:
            raise BoxEnded(f"{self._command} {arguments[0]} failed: {output[-300:].decode(errors='replace')}")
        return output


def _run(command: Sequence[str], given: bytes, seconds: float, most: int) -> tuple[bytes, int, int | None]:
    """The first bytes of a command's output, how many more there were, and its exit status; None: it took too long."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
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
                    elif given and event & select.POLLOUT:
                        given = given[process.stdin.write(given[:4096]) or 0 :]
                    else:
                        poll.unregister(process.stdin)
                        process.stdin.close()
        except (subprocess.TimeoutExpired, BrokenPipeError):
            pass
        finally:
            process.kill()
        return bytes(kept), size - len(kept), None
