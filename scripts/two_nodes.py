"""Runs a command on a Ray cluster of two nodes, made of namespaces of this machine, and removes it again.

    python scripts/two_nodes.py -- agent-r1 train distributed.rollout_workers=2 distributed.address=auto

Each node has an IP address, process numbers and shared memory of its own, and a cable leads to the other; the file
system is the same, as a cluster's shared disk is. The command runs on the first node, where Ray's head is. Whatever
ends this script, SIGKILL too, ends every process of both nodes. It needs Linux, root, `ip` (iproute2) and util-linux.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT = 6379
STORE = 128 << 20
"""Bytes of each node's object store."""
# Process 1 of a node lives until it is killed; then the kernel kills all others. It lets no zombies stay.
INIT = (
    "mount -t tmpfs tmpfs /dev/shm && ip link set lo up && echo ready && exec env --ignore-signal=CHLD sleep infinity"
)
# The cable hangs on a bridge, which keeps its address when the other end is lost.
FIRST = (
    "ip link add eth0 type bridge && ip address add {address}/24 dev eth0 && ip link set eth0 up && "
    "ip route add default dev eth0"
)
# The kernel removes the cable of a lost node in its own time.
REMOVE = "ip link delete cable 2>/dev/null || true"
CABLE = "ip link set cable master eth0 && ip link set cable up"
SECOND = "ip address add {address}/24 dev eth0 && ip link set eth0 up && ip route add default dev eth0"
SETTINGS = {
    # A node that is gone is noticed within seconds; one that is slow has half a minute.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "10000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_ADDRESS": f"{ADDRESSES[0]}:{PORT}",
}


class CannotMakeNodes(Exception):
    """This machine does not let two nodes be made; the text says why."""


class Node:
    """A machine in namespaces of its own: network, processes, mounts."""

    def __init__(self, address: str) -> None:
        """Boot it.

        Raises:
            CannotMakeNodes: it is not allowed here.
        """
        self.address = address
        unshare = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INIT]
        # The kernel kills it when this process has ended, however that came about.
        command = ["setpriv", "--pdeathsig", "KILL", *unshare]
        try:
            self._keeper = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
        except FileNotFoundError as error:
            raise CannotMakeNodes(f"there is no `{error.filename}` here; install util-linux") from None
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != "ready\n":
            said = self._keeper.communicate()[1].strip().splitlines()
            raise CannotMakeNodes(f"namespaces cannot be made here: {said[-1] if said else 'unshare said nothing'}")
        self.init = psutil.Process(self._keeper.pid).children()[0].pid
        """The number of its process 1, outside it."""

    @property
    def runs(self) -> bool:
        """Whether it has not been lost."""
        return self._keeper.poll() is None

    def inside(self, command: Sequence[str]) -> list[str]:
        """A command that runs another one on this node, in the current folder."""
        return ["nsenter", "-t", str(self.init), "-n", "-p", "-m", "env", "-C", os.getcwd(), *command]

    def call(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run a short command on this node.

        Raises:
            CannotMakeNodes: it failed.
        """
        inside = self.inside(command)
        done = subprocess.run(inside, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise CannotMakeNodes(f"`{' '.join(command)}` failed on {self.address}: {said}")

    def processes(self) -> dict[int, str]:
        """Command lines of its processes by their numbers outside it."""
        found = {}
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):  # it has ended meanwhile
                if os.path.samefile(f"/proc/{process.pid}/ns/pid", f"/proc/{self.init}/ns/pid"):
                    found[process.pid] = " ".join(process.cmdline()).strip()
        return found

    def lose(self) -> None:
        """The machine is gone: all its processes are killed with signal 9, and its end of the cable vanishes."""
        if self.runs:
            os.kill(self.init, signal.SIGKILL)
            self._keeper.communicate()  # until the last of them has ended


class TwoNodes:
    """Two nodes with a cable between them, and Ray on both.

    Args:
        folder: where Ray may write; its path is short.
        gpus: that Ray may deal out on each node, whether there are any or not.
    """

    def __init__(self, folder: Path, gpus: int) -> None:
        self.environment = {**os.environ, **SETTINGS, "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
        """Of every process that speaks to this Ray."""
        self.nodes: list[Node] = []
        self._folder, self._gpus = folder, gpus

    def boot(self) -> None:
        """Make both nodes.

        Raises:
            CannotMakeNodes: it is not allowed here, or Ray does not start.
        """
        (self._folder / "token").write_text(secrets.token_hex(32))
        first = Node(ADDRESSES[0])
        self.nodes = [first]
        first.call(["sh", "-c", FIRST.format(address=first.address)])
        self._start_ray(first, "--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={self._folder}")
        self.join()

    def join(self) -> None:
        """Boot the second node, also in the place of one that was lost.

        Raises:
            CannotMakeNodes: Ray does not start.
        """
        first, second = self.nodes[0], Node(ADDRESSES[1])
        self.nodes = [first, second]
        first.call(["sh", "-c", REMOVE])
        cable = ["ip", "link", "add", "cable", "netns", str(first.init), "type", "veth"]
        subprocess.run([*cable, "peer", "name", "eth0", "netns", str(second.init)], check=True)
        first.call(["sh", "-c", CABLE])
        second.call(["sh", "-c", SECOND.format(address=second.address)])
        self._start_ray(second, f"--address={self.environment['RAY_ADDRESS']}")

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a command on the first node, in a session of its own."""
        inside = self.nodes[0].inside(command)
        return subprocess.Popen(inside, env=self.environment, start_new_session=True, **options)

    def close(self) -> None:
        for node in self.nodes:
            node.lose()

    def _start_ray(self, node: Node, *arguments: str) -> None:
        ray = str(Path(sys.executable).with_name("ray"))
        bounds = ["--num-cpus=2", f"--num-gpus={self._gpus}", f"--object-store-memory={STORE}"]
        node.call([ray, "start", f"--node-ip-address={node.address}", *bounds, *arguments], self.environment)


@contextmanager
def two_nodes(gpus: int = 0) -> Iterator[TwoNodes]:
    """Two nodes for as long as the context lasts.

    Raises:
        CannotMakeNodes: this machine does not let them be made.
    """
    with TemporaryDirectory(prefix="nodes-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        nodes = TwoNodes(Path(folder), gpus)
        try:
            nodes.boot()
            yield nodes
        finally:
            nodes.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", nargs="+", help="what to run, after `--`")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        with two_nodes() as nodes, nodes.start(options.command) as running:

            def pass_on(number: int, frame: Any) -> None:
                with suppress(psutil.NoSuchProcess):
                    for child in psutil.Process(running.pid).children():
                        child.send_signal(number)

            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, pass_on)
            return running.wait()
    except CannotMakeNodes as error:
        print(f"two nodes cannot be made: {error}", file=sys.stderr)
        return 1


def _leave(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
