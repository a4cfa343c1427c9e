"""Which plugin files and programs may run: those that this user named, trained with or allowed on this machine.

A recipe or a run that was made elsewhere may name some. What ran here is remembered by path and content, a program by
its words, in the user's state folder, outside of runs and recipes.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_r1_core.folders import state_dir
from agent_r1_core.plugins.sources import Candidate


@dataclass(frozen=True)
class Trust:
    """Which plugin files and programs of a recipe or a run may run; those that the command line names always may."""

    named: bool = False
    """All of them: the user trains this recipe, or says `--trust`."""
    edited: bool = False
    """Those that ran here before, even if their content has changed since."""
    confirm: Callable[[str], bool] | None = None
    """Asks the person at the terminal about the others; None: nobody can be asked, and they are refused."""

    def refused(self, files: Sequence[Candidate], what: str = "plugin file") -> list[Candidate]:
        """Those that may not run; asks about what is unknown. The others are remembered."""
        unknown = [] if self.named else [file for file in files if not self._is_known(file)]
        if unknown and self.confirm is not None and self.confirm(_question(unknown, what)):
            unknown = []
        remember([file for file in files if file not in unknown])
        return unknown

    def _is_known(self, file: Candidate) -> bool:
        try:
            return (_memory(file).parent if self.edited else _memory(file)).exists()
        except (OSError, RuntimeError):  # there is no home folder
            return False


def remember(files: Sequence[Candidate]) -> None:
    """Note that these files run here; where that cannot be written, the user is asked again."""
    for file in files:
        with contextlib.suppress(OSError, RuntimeError):
            path = _memory(file)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{file.value}\n", encoding="utf-8", errors="replace")


def shown(file: Candidate) -> str:
    """Path and hash of a plugin file, or a program's words and hash, without characters that would steer a terminal."""
    path = file.value if file.value.isprintable() else ascii(file.value)
    return f"{path} (SHA-256 {(file.file_hash or '')[:16]})"


def _question(files: Sequence[Candidate], what: str) -> str:
    which = f"this {what}" if len(files) == 1 else f"these {what}s"
    lines = "".join(f"\n  {shown(file)}" for file in files)
    return f"The recipe runs {which}, which did not run here before:{lines}\nIt can do whatever you can. Run it?"


def _memory(file: Candidate) -> Path:
    """The file that remembers a plugin file: a folder for its path, a name for its content."""
    place = hashlib.sha256(file.value.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return state_dir() / "plugin_files" / place / (file.file_hash or "")
