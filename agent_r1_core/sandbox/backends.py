"""What can hold a process: bubblewrap (namespaces), or sandlock (Landlock and seccomp, no namespaces).

Both show the machine's programs (`/usr`) read-only, and nothing else of it; a guest is the system's own Python, without
installed packages. As root, the guest runs as `nobody`, for the kernel bounds no processes of root. Neither filters
every system call: a hole in the kernel is a way out. bubblewrap needs user namespaces, which containers often forbid,
and version 0.8; sandlock needs Linux 6.12, and has no folder to write to.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_r1_core.errors import ConfigError

NOBODY = 65534
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LD_LIBRARY_PATH": "/usr/local/lib",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
"""Not Popen's `user`, with which it copies this process first: a third of a second where that has a gigabyte."""
_LAUNCHER = Path(__file__).with_name("sandlock_launcher.py")
_START = Path(__file__).with_name("guest_start.py").read_text()
MIB = 1 << 20


@dataclass(frozen=True)
class Bounds:
    """What a guest may take; the system refuses it more."""

    memory: int = 512
    """MiB of address space of each process."""
    disk: int = 16
    """MiB of files in each writable folder, which lie in memory; also of a single file. For each MiB a folder has room
    for 512 files and folders."""
    processes: int = 0
    """Most processes and threads besides the first."""
    open_files: int = 64
    """Of each process."""
    folders: tuple[str, ...] = ("/tmp",)
    """Writable folders, empty at the start; guests of sandlock have none. The first is the guest's home."""

    def __post_init__(self) -> None:
        """Raises a ConfigError for a bound that bounds nothing."""
        for name, least in {"memory": 1, "disk": 1, "processes": 0, "open_files": 1}.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} of a sandbox is {getattr(self, name)}; give at least {least}")
        if not self.folders:
            raise ConfigError("a sandbox has no folder; name one, such as /tmp")

    def limits(self) -> dict[str, int]:
        """By name of the `resource` module; the guest sets them before anything else."""
        return {
            "RLIMIT_AS": self.memory * MIB,
            "RLIMIT_FSIZE": self.disk * MIB,
            "RLIMIT_NPROC": self.processes + (1 if self.processes else 0),
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_CORE": 0,
        }


@dataclass(frozen=True)
class Backend:
    """One way to hold a process."""

    name: str
    writable: bool
    """Whether its guests have folders to write to."""
    isolates: bool = True
    """False: the guest is an ordinary process, which can read and change what this one can."""

    def command(self, program: str, bounds: Bounds) -> tuple[list[str], dict[str, Any]]:
        """The command that runs the Python source, and further arguments of Popen."""
        limits = bounds.limits() if self.isolates else {"RLIMIT_AS": bounds.memory * MIB}
        room = f"size={bounds.disk * MIB},nr_inodes={bounds.disk * 512},mode=755"
        folders = dict.fromkeys(bounds.folders if self.name == "bubblewrap" else (), room)
        told = json.dumps({"limits": limits, "folders": folders, "isolated": self.isolates})
        guest = [_python(), "-s", "-S", "-c", _START, told, program]
        if self.name == "bubblewrap":
            user = _AS_NOBODY if os.geteuid() == 0 else []
            return [*user, *_bubblewrap(bounds), *guest], {"cwd": "/"}
        if self.name == "sandlock":
            policy = {"guest": guest, "environment": _home("/"), "programs": _PROGRAMS, "devices": _DEVICES}
            most = {"processes": bounds.processes + 1, "user": NOBODY, "parent": os.getpid()}
            return [sys.executable, "-I", str(_LAUNCHER), json.dumps(policy | most)], {"cwd": "/"}
        return guest, {"env": _ENVIRONMENT}


def _bubblewrap(bounds: Bounds) -> list[str]:
    command = ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    command += ["--cap-add", "CAP_SYS_ADMIN", "--hostname", "sandbox", "--clearenv", "--proc", "/proc"]
    for name, value in _home(bounds.folders[0]).items():
        command += ["--setenv", name, value]
    for path in _PROGRAMS:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        else:
            command += ["--ro-bind-try", path, path]
    for path in _DEVICES:
        command += ["--dev-bind", path, path]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        command += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
    command += ["--symlink", "/proc/self/fd", "/dev/fd"]
    for path in bounds.folders:
        command += ["--dir", path]
    return [*command, "--remount-ro", "/", "--chdir", bounds.folders[0], "--"]


def _home(folder: str) -> Mapping[str, str]:
    return {**_ENVIRONMENT, "HOME": folder, "TMPDIR": folder}


def _python() -> str:
    """The system's Python, which lies among the programs that guests see."""
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin")
    if python is None:
        raise ConfigError("a sandbox needs python3 in /usr/bin or /usr/local/bin; install it (apt-get install python3)")
    return python


BACKENDS = {
    "bubblewrap": Backend("bubblewrap", writable=True),
    "sandlock": Backend("sandlock", writable=False),
}
"""In the order in which they are tried."""
UNSAFE = Backend("unsafe", writable=True, isolates=False)
"""No sandbox."""
