"""What runs in the sandbox of a `Shell`: commands, and files in and out. It is sent there as text.

After each command it kills every other process that it can, so it refuses to be anything but the first of its world.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable


def run(command: str, seconds: float, most: int, environment: dict[str, str]) -> dict[str, object]:
    """Run a command in the working folder; processes that it leaves behind are killed. One that no shell can be given
    (it is too long, or has a NUL) has exit status 126, as shells say it."""
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    try:
        process = subprocess.Popen(
            [shell, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )
    except (OSError, ValueError) as error:
        return {"text": f"cannot run it: {error}"[:most], "dropped": 0, "code": 126}
    assert process.stdout is not None
    kept, size, deadline, descriptor = bytearray(), 0, time.monotonic() + seconds, process.stdout.fileno()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    ended = False
    while (left := deadline - time.monotonic()) > 0:
        if poll.poll(0 if ended else min(left, 0.02) * 1000):
            piece = os.read(descriptor, 1 << 16)
            kept += piece[: max(0, most - len(kept))]
            size += len(piece)
            if not piece:
                break
        elif ended:
            break
        ended = ended or process.poll() is not None
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        code = None
    kill_others(process)
    process.stdout.close()
    return {"text": kept.decode("utf-8", "replace"), "dropped": size - len(kept), "code": code}


def kill_others(process: subprocess.Popen[bytes]) -> None:
    """Kill the command's process and all that it left, until none is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
        process.wait()
        while True:
            os.kill(-1, signal.SIGKILL)
            time.sleep(0.001)


def put(files: dict[str, tuple[str, bool]]) -> dict[str, object]:
    """Write new files, with their folders."""
    for path, (content, executable) in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(content))
        os.chmod(path, 0o755 if executable else 0o644)
    return {}


def take(folder: str) -> dict[str, object]:
    """The regular files below a folder; links and the like are left out."""
    files = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode | 0o400)
                with open(path, "rb") as file:
                    content = base64.b64encode(file.read()).decode()
                files[os.path.relpath(path, folder)] = content, os.access(path, os.X_OK)
    return {"files": files}


def serve() -> None:
    if os.getpid() > 2:
        sys.exit("a shell's sandbox needs process numbers of its own")
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    do: dict[str, Callable[..., dict[str, object]]] = {"run": run, "put": put, "take": take}
    while header := requests.read(4):
        request = json.loads(requests.read(int.from_bytes(header, "big")))
        try:
            answer = do[request.pop("do")](**request)
        except Exception as error:
            answer = {"error": str(error)}
        data = json.dumps(answer).encode()
        answers.write(len(data).to_bytes(4, "big") + data)
        answers.flush()


serve()
