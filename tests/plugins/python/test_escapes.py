"""What no code gets out of a sandbox: the same attempts in each of them."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from agent_r1_python.python_tool import Python

from agent_r1_core import ConfigError, ToolContext, ToolError, ToolResources
from agent_r1_core.sandbox import BACKENDS, box
from agent_r1_core.testing import make_task

SANDBOXES = pytest.mark.parametrize("sandbox", sorted(BACKENDS))
REFUSED = {
    "reads a host file": "open('{host}').read()",
    "lists a host folder": "import os; os.listdir('{folder}')",
    "follows a link to a host file": "import os; os.symlink('{host}', '/tmp/link'); open('/tmp/link').read()",
    "writes beside its folders": "open('/usr/made', 'w')",
    "writes into its root": "open('/made', 'w')",
    "connects to this machine": "import socket; socket.create_connection(('127.0.0.1', {port}), 2)",
    "connects to a socket of the host": "import socket; socket.socket(socket.AF_UNIX).connect('{socket}')",
    "connects to an abstract socket": "import socket; socket.socket(socket.AF_UNIX).connect('\\0{abstract}')",
    "forks": "import os; os.fork()",
    "starts a program": "import subprocess; subprocess.run(['/bin/true'])",
    "starts a thread": "import threading; threading.Thread(target=print).start()",
    "takes too much memory": "x = bytearray(5 * 10**9)",
    "maps too much memory": "import mmap; mmap.mmap(-1, 5 * 10**9)",
    "writes too much": "for i in range(200): open(f'/tmp/{{i}}', 'wb').write(bytes(10**6))",
    "makes too many files": "for i in range(10**4): open(f'/tmp/{{i}}', 'x').close()",
    "keeps memory in a file without a place": "import os; os.memfd_create('x')",
    "opens too many files": "x = [open('/dev/null') for i in range(100)]",
    "raises its own limits": "import resource as r; r.setrlimit(r.RLIMIT_NPROC, (99, 99))",
    "signals a process of the host": "import os; os.kill({process}, 0)",
    **{
        name: f"import ctypes\nif ctypes.CDLL(None).{call}: raise OSError"
        for name, call in {
            "makes a namespace": "unshare(0x10000000)",
            "mounts": "mount(b'none', b'/tmp', b'tmpfs', 0, None)",
            "keeps memory that no process maps": "shmget(0, 1 << 20, 0o1600) < 0",
            "keeps messages that nobody reads": "msgget(0, 0o1600) < 0",
            "keeps semaphores": "semget(0, 9, 0o1600) < 0",
            "loads a program into the kernel": "syscall(321, 0, bytes(72), 72) < 0",
        }.items()
    },
}


@SANDBOXES
def test_whatever_is_tried_is_refused(sandbox: str, tmp_path: Path) -> None:
    """Each attempt raises in the interpreter, which goes on; none of them does anything."""
    tool = Python(Python.Config(sandbox=sandbox, seconds=20))
    tool.open(ToolResources(""))
    context = ToolContext("one", 0, make_task(), random.Random(0), deadline=time.monotonic() + 500)
    secret, mark = tmp_path / "secret", f"agent-r1-{os.getpid()}"
    secret.write_text("secret")
    tmp_path.chmod(0o755)
    tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    with tcp, udp, unix, abstract, subprocess.Popen(["sleep", "600"]) as other:
        try:
            for server, address in ((unix, str(tmp_path / "socket")), (abstract, "\0" + mark)):
                server.bind(address)
                server.listen()
            udp.bind(("127.0.0.1", 0))
            names = {"host": secret, "folder": tmp_path, "socket": tmp_path / "socket", "abstract": mark}
            names |= {"port": tcp.getsockname()[1], "process": other.pid}

            def run(code: str) -> str:
                return str(tool.run(Python.Arguments(code=code), context))

            told = {name: run(code.format(**names)) for name, code in REFUSED.items()}
            assert not [name for name, text in told.items() if "Traceback" not in text], told
            datagram = f"sendto(b'x', ('127.0.0.1', {udp.getsockname()[1]}))"
            run(f"import socket; socket.socket(type=socket.SOCK_DGRAM).{datagram}")
            with pytest.raises(BlockingIOError):
                udp.recv(1, socket.MSG_DONTWAIT)
            assert run("6 * 7") == "42"
            assert other.poll() is None
        finally:
            other.kill()
            tool.release(context)


@pytest.mark.slow
@SANDBOXES
@pytest.mark.parametrize(
    "code",
    [
        *("while True: pass", "import time; time.sleep(60)", "9**9**9", "import os; os.kill(os.getpid(), 9)"),
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); import time; time.sleep(60)",
        *("import os; [os.close(i) for i in range(3, 64)]", "import ctypes; ctypes.string_at(0)"),
        "def f(): f()\nimport sys; sys.setrecursionlimit(10**9); f()",
        *(f"import os; os.write({{answers}}, {what})" for what in ("b'x' * 10**6", "bytes([0, 0, 0, 2]) + b'[]'")),
    ],
    ids=lambda code: code[:20],
)
def test_what_ends_the_interpreter_costs_its_state_and_nothing_else(sandbox: str, code: str) -> None:
    """Within the time-out, whatever it does; the episode then goes on with a new interpreter."""
    tool = Python(Python.Config(sandbox=sandbox, seconds=60))
    tool.open(ToolResources(""))
    context = ToolContext("one", 0, make_task(), random.Random(0), deadline=time.monotonic() + 500)
    tool.run(Python.Arguments(code="x = 1"), context)
    patient, tool.config = tool.config, Python.Config(sandbox=sandbox, seconds=1)
    with pytest.raises(ToolError, match="all variables are gone"):
        tool.run(Python.Arguments(code=code.replace("{answers}", "4")), context)
    tool.config = patient
    assert "NameError" in tool.run(Python.Arguments(code="x"), context)
    tool.release(context)
    with pytest.raises(ToolError, match="the episode is over"):
        tool.run(Python.Arguments(code="x"), context)


@SANDBOXES
def test_a_guest_dies_with_the_process_that_started_it(sandbox: str) -> None:
    """Even where that one is killed, and the guest is in a loop that no end of a file ends."""
    program = f"""
import sys
from agent_r1_core.sandbox import BACKENDS, Bounds, Box
box = Box(BACKENDS[{sandbox!r}], "import os, time; os.write(1, bytes(4))\\nwhile True: time.sleep(1)", Bounds())
box.exchange(b"", 20, 8)
print("runs", flush=True)
sys.stdin.read()
"""
    mark = f"AGENT_R1_MARK_{os.getpid()}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", program, mark], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        family = [one.pid for one in psutil.Process(process.pid).children(recursive=True)]
        assert len(family) >= 2
        process.kill()
    deadline = time.monotonic() + 60
    while alive(family) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(family)


def alive(processes: list[int]) -> set[int]:
    running = (one.pid for one in psutil.process_iter(["status"]) if one.info["status"] != psutil.STATUS_ZOMBIE)
    return {*processes} & {*running}


def test_without_a_sandbox_the_tool_is_refused_unless_the_recipe_says_so(caplog, monkeypatch):
    tool = Python(Python.Config(unsafe=True))
    tool.open(ToolResources(""))
    context = ToolContext("one", 0, make_task(), random.Random(0))
    assert tool.run(Python.Arguments(code="import os; os.getpid()"), context) != ""
    tool.release(context)
    assert tool.describe() == {"sandbox": "unsafe"}
    assert "has no sandbox (unsafe: true)" in caplog.text
    monkeypatch.setattr(box, "problem_of", lambda backend: "not installed")
    with pytest.raises(ConfigError, match=r"no sandbox here \(bubblewrap: not installed; sandlock: not"):
        Python().open(ToolResources(""))
