"""The kernels as a library, compiled for the processor that is here and kept in the cache folder.

Its name is a hash of the source, the command and what the processor can do, so that a cache may be shared by machines.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_r1_core.folders import cache_dir
from agent_r1_core.opening import read_bytes

_SOURCE = Path(__file__).with_name("kernels.cpp")
_OPTIONS = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-shared", "-fPIC")
"""None lets sums take another order than the source says. Products that are added may be rounded once (FMA)."""
_SECONDS = 120
"""After which a compiler is given up."""


def library() -> ctypes.CDLL:
    """The library; compiles it, in about two seconds, where it is not in the cache.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be compiled or kept.
    """
    command = [*shlex.split(os.environ.get("CXX", "c++")), *_OPTIONS]
    identity = [command, platform.machine(), _processor()]
    name = hashlib.sha256(read_bytes(_SOURCE) + repr(identity).encode()).hexdigest()[:32]
    file = cache_dir() / "kernels" / f"{name}.so"
    with suppress(OSError):  # not compiled yet, or damaged
        return ctypes.CDLL(str(file))
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder, file.name)
        done = subprocess.run(
            [*command, str(_SOURCE), "-o", str(made)], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"{command[0]} ended with {done.returncode}"]
            raise OSError(said[0])
        made.replace(file)
    return ctypes.CDLL(str(file))


def _processor() -> str:
    """The model of the processor and its instructions, as Linux lists them; elsewhere what Python says."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        telling = ("model name", "flags", "CPU part", "Features", "isa")
        return "".join(dict.fromkeys(line for line in lines if line.startswith(telling)))
    return platform.processor()
