"""A Python that starts warm: a program runs in a fork of a process that has imported the large libraries, and begins at
once instead of after six seconds of imports.

`warm_python` makes a command that takes what `python` takes: a file, `-c` or `-m`, after `-P`, `-I` or `-S`. It passes
arguments, folder, environment, open files, SIGINT and SIGTERM on, and ends as the program does; who kills it kills the
program. In the program `sys.executable` is the command, so that what it starts is warm too. As a script this file is
the process that forks: `warm_python.py SOCKET COMMAND`. It needs Linux.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import runpy
import select
import signal
import site
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

APART = ("-P", "-I", "-S")
"""Options of `python` that leave out the folder of the program, or more; what the others leave out is there."""
SITE = "WARM_PYTHON_SITE"
"""The variable with the site-packages of another environment, which the program sees as well."""
COMMAND = """#!{python} -IS
import json, os, signal, socket, sys
def inherited(number):
    try:
        return os.get_inheritable(number)
    except OSError:
        return False
streams = [number for number in map(int, os.listdir("/proc/self/fd")) if inherited(number)]
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), streams])
    socket.send_fds(server, [call.encode()], streams)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: server.send(str(number).encode()))
    code = int(server.recv(16) or 1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@contextmanager
def warm_python(folder: Path) -> Iterator[Path]:
    """The command, for as long as the context lasts; `folder` is empty."""
    command, address = folder / "python", str(folder / "socket")
    command.write_text(COMMAND.format(python=sys.executable, address=address))
    command.chmod(0o755)
    server = [sys.executable, __file__, address, str(command)]
    calm = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=calm) as process:
        assert process.stdout.readline() == b"ready\n"
        yield command


def preload() -> None:
    """Import what programs spend their time importing; nothing that starts threads."""
    from agent_r1_transformers.engine import TransformersEngine  # noqa: F401
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2ForCausalLM  # noqa: F401

    from agent_r1_cli.main import main  # noqa: F401
    from agent_r1_core.training.trainer import Trainer  # noqa: F401


def serve(address: str, command: str) -> None:
    """Fork for every call, until who started this has ended."""
    preload()
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            call, _ = listener.accept()
            if not os.fork():
                listener.close()
                attend(call, command)
            call.close()
            with suppress(ChildProcessError):  # there is none left
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue


def attend(call: socket.socket, command: str) -> None:
    """Fork once more, into the program; tell the command how it ended, or end it with the command."""
    told, files, _, _ = socket.recv_fds(call, 1 << 20, 250)
    program = os.fork()
    if not program:
        call.close()
        os.setsid()
        become(*json.loads(told), files, command)
    for file in files:
        os.close(file)
    ended = os.pidfd_open(program)
    while ended not in select.select([call, ended], [], [])[0]:
        os.kill(program, int(call.recv(16) or signal.SIGKILL))
    code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    with suppress(OSError):
        call.send(str(code).encode())
    os._exit(0)


def become(
    arguments: list[str], folder: str, environment: dict[str, str], numbers: list[int], files: list[int], command: str
) -> None:
    """Be the program to the end of this process; `files` get the numbers that they have in the command."""
    aside = [fcntl.fcntl(file, fcntl.F_DUPFD, 1000) for file in files]
    for file in files:
        os.close(file)
    for number, file in zip(numbers, aside, strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.executable = command
    sys.path[:1] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    if SITE in environment:
        site.addsitedir(environment[SITE])
    sys.exit(run(arguments))


def run(arguments: list[str]) -> Any:
    """Run a program as `python` would."""
    options = list(takewhile(lambda argument: argument in APART, arguments))
    first, *rest = arguments[len(options) :]
    if not options:
        sys.path.insert(0, os.getcwd() if first in ("-c", "-m") else str(Path(first).resolve().parent))
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    serve(*sys.argv[1:])
