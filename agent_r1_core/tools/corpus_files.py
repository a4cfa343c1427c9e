"""CorpusFiles: corpora as JSON Lines files in the temporary directory, for the processes of isolated tools.

A file is named after its content, so that all runs of a user share it, and exists as long as a run uses it. What a
killed run leaves behind is deleted by the next one. Needs a POSIX system, for file locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

from agent_r1_core.errors import RunError
from agent_r1_core.opening import open_to_read


class CorpusFiles:
    """The corpus files that one runner of tools uses; each is locked (shared) while it is open."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir(), f"agent-r1-corpora-{os.getuid()}")
        self._open: list[tuple[Path, IO[bytes]]] = []

    def write(self, corpora: Mapping[str, Callable[[], Iterable[Any] | None]]) -> dict[str, str]:
        """Write each corpus; returns the files by the corpora's names.

        Raises:
            RunError: the folder belongs to somebody else, or cannot be written.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._folder.is_symlink() or self._folder.stat().st_uid != os.getuid():
                raise RunError(f"{self._folder} belongs to somebody else; delete it, or set TMPDIR to another folder")
            for left in self._folder.iterdir():
                _delete_unused(left)
            return {name: str(self._write(load() or ())) for name, load in corpora.items()}
        except OSError as error:
            raise RunError(
                f"the corpora of isolated tools cannot be written to {self._folder} ({error.strerror or error}); free "
                "space there, or set TMPDIR to another folder"
            ) from error

    def close(self) -> None:
        """Release the files; those that nobody else uses are deleted."""
        while self._open:
            path, file = self._open.pop()
            file.close()
            _delete_unused(path)

    def _write(self, passages: Iterable[Any]) -> Path:
        """Write the passages to the file that is named after them, or take the one that another run wrote."""
        file = self._temporary()
        try:
            digest = blake2b(digest_size=16)
            for passage in passages:
                line = json.dumps(asdict(passage)) + "\n"
                digest.update(line.encode())
                file.write(line)
            file.flush()
            path = self._folder / f"{digest.hexdigest()}.jsonl"
            while not self._take(path):
                with contextlib.suppress(FileExistsError):  # another run was faster: take its file
                    os.link(file.name, path)
        finally:
            Path(file.name).unlink(missing_ok=True)
            file.close()
        return path

    def _temporary(self) -> IO[str]:
        """A new file, locked."""
        while True:
            file = tempfile.NamedTemporaryFile(  # noqa: SIM115  # it stays open as long as it is used
                "w", encoding="utf-8", dir=self._folder, prefix=".writing-", delete=False
            )
            fcntl.flock(file, fcntl.LOCK_SH)
            if _is_still(Path(file.name), file):
                return file
            file.close()  # another run's sweep was faster than the lock

    def _take(self, path: Path) -> bool:
        """Lock an existing file; returns whether it is there, even after it was locked."""
        try:
            file = open_to_read(path)
        except FileNotFoundError:
            return False
        fcntl.flock(file, fcntl.LOCK_SH)
        if not _is_still(path, file):
            file.close()
            return False
        self._open.append((path, file))
        return True


def _delete_unused(path: Path) -> None:
    """Delete a file unless somebody has locked it."""
    with contextlib.suppress(OSError), open_to_read(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_still(path, file):
            path.unlink()


def _is_still(path: Path, file: IO[Any]) -> bool:
    """Whether the opened file is the one of that name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
