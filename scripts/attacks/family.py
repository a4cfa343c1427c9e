"""Family: the processes that a command has started, and theirs, as /proc shows them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Member:
    """A process. Its number may be given to another one when it has ended, its beginning tells them apart."""

    pid: int
    begun: int
    """Clock ticks since the machine started."""
    title: str


class Family:
    """All processes that were ever seen below some process."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], Member] = {}

    def look(self, ancestor: int) -> None:
        """Note who is there."""
        parents: dict[int, int] = {}
        begun: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            fields = _fields(int(entry.name)) if entry.name.isdigit() else None
            if fields is not None:
                parents[int(entry.name)], begun[int(entry.name)] = int(fields[1]), int(fields[19])
        for pid in parents:
            above: int | None = pid
            while above not in (None, ancestor):
                above = parents.get(above)
            known = (pid, begun[pid]) in self._seen
            if above is not None and (pid != ancestor or known):
                self._seen[pid, begun[pid]] = Member(pid, begun[pid], _title(pid))

    def alive(self) -> list[Member]:
        """Those that have not ended."""
        return [member for member in self._seen.values() if _lives(member)]

    def named(self, title: str) -> list[Member]:
        """Those that live and whose title begins so, or whose program is called so."""
        programs = {member: member.title.partition(" ")[0].rpartition("/")[2] for member in self.alive()}
        return [member for member, program in programs.items() if title == program or member.title.startswith(title)]

    def signal(self, member: Member, number: signal.Signals) -> bool:
        """Send a signal; whether there was somebody to get it."""
        with suppress(ProcessLookupError):
            if _lives(member):
                os.kill(member.pid, number)
                return True
        return False


def _fields(pid: int) -> list[str] | None:
    """What /proc/PID/stat says after the name: state, parent, ...; None: it has ended."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _lives(member: Member) -> bool:
    fields = _fields(member.pid)
    return fields is not None and fields[0] not in "ZX" and int(fields[19]) == member.begun


def _title(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
