"""How every guest begins: it takes its bounds, which it cannot give back, and runs the source that comes with them.

Limits of a process do not count memory that belongs to none: System V segments and queues and memory files are
refused by a filter of system calls, and writable folders have a bound on their number of files. It is sent as text.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import struct
import sys

_CALLS = {
    # The processor's name for the filter (linux/audit.h); then shmget, semget, msgget, memfd_create, memfd_secret.
    "x86_64": (0xC000003E, (29, 64, 68, 319, 447)),
    "aarch64": (0xC00000B7, (194, 190, 186, 279, 447)),
}
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _NO_SUCH_CALL = 0x7FFF0000, 0x00050026
_NEW_MOUNTS, _NO_SETUID_NO_DEVICES = 0x20000, 2 | 4
_C = ctypes.CDLL(None, use_errno=True)
_C.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
_C.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4


def check(result: int, what: str) -> None:
    if result:
        sys.exit(f"cannot {what}: {os.strerror(ctypes.get_errno())}")


def bound_folders(folders: dict[str, str]) -> None:
    """Mount each folder anew, with these options, and give up the right to mount."""
    check(_C.unshare(_NEW_MOUNTS), "mount folders")
    here = os.getcwd()
    for path, options in folders.items():
        check(_C.mount(b"tmpfs", path.encode(), b"tmpfs", _NO_SETUID_NO_DEVICES, options.encode()), f"mount {path}")
    os.chdir(here)
    check(_C.capset(struct.pack("Ii", 0x20080522, 0), bytes(24)), "give up capabilities")


def refuse_calls() -> None:
    """From now on, for this process and all that it starts."""
    machine = os.uname().machine
    if machine not in _CALLS:
        sys.exit(f"its filter of system calls knows {' and '.join(_CALLS)}, not {machine}")
    processor, calls = _CALLS[machine]
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, processor), (_RETURN, 0, 0, _NO_SUCH_CALL), (_LOAD, 0, 0, 0)]
    for code, number in ((_AT_LEAST, 0x40000000), *((_EQUAL, call) for call in calls)):  # x32's come from the first on
        steps += [(code, 0, 1, number), (_RETURN, 0, 0, _NO_SUCH_CALL)]
    steps += [(_RETURN, 0, 0, _ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    check(_C.prctl(38, 1, 0, 0, 0), "give up new privileges")
    filters = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(program)))
    check(_C.prctl(22, 2, ctypes.addressof(filters), 0, 0), "filter system calls")


def start(limits: dict[str, int], folders: dict[str, str], isolated: bool) -> None:
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, name), (most, most))
    if folders:
        bound_folders(folders)
    if isolated:
        refuse_calls()


start(**json.loads(sys.argv[1]))
exec(compile(sys.argv[2], "guest", "exec"), {"__name__": "__main__"})
