"""Writes files and folders whole or not at all, even when the process is killed.

Data goes to a temporary neighbour first, reaches the disk (fsync), and is then renamed. `clean_leftovers` removes what
killed writers left. Only one process may write a run (see `lock.py`), so a leftover belongs to nobody. All that write
or delete raise RunError where the file system refuses (full, read-only, gone); `sync` and `sync_tree` raise OSError.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agent_r1_core.contracts.markup import encodable
from agent_r1_core.errors import NotOpened, RunError
from agent_r1_core.opening import open_to_write, parse_json, read_bytes

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
TEMPORARY = ".tmp-"
REPLACED = ".old-"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn what the file system refuses (full, read-only, gone) into a sentence about `path`.

    Raises:
        RunError: instead of an OSError.
        NotOpened: what is written is a link, or no file.
    """
    try:
        yield
    except NotOpened:  # its own sentence says why
        raise
    except OSError as error:
        raise RunError(
            f"{path} could not be written ({error.strerror or error}); "
            "free space or allow writing there, then try again (a training with --resume)"
        ) from error


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, then rename it to `path`."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}-{os.getpid()}")
    with naming(path):
        try:
            temporary.unlink(missing_ok=True)  # a link of this name would lead elsewhere
            write(temporary)
            sync(temporary)
            os.replace(temporary, path)
            sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` in UTF-8, whole or not at all."""
    write_file(path, lambda temporary: _fill(temporary, text))


def append_line(path: Path, line: str) -> None:
    """Add a line, whole or not at all; it is on disk when this returns."""
    content = line.encode()
    with naming(path):
        handle = open_to_write(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(handle).st_size
            try:
                if os.write(handle, content) != len(content):
                    raise OSError("only a part of the line was written")
                os.fsync(handle)
                if not size:  # it may be new: without its name in the folder the line is lost with the power
                    sync(path.parent)
            except OSError:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)


def read_lines(path: Path) -> list[bytes]:
    """The whole lines of a file, if it is there: what a kill cut off is no line."""
    return read_bytes(path).split(b"\n")[:-1] if path.exists() else []


class LinesFile(Generic[T]):
    """Dataclasses of one kind in a file, one JSON object a line."""

    def __init__(self, path: Path, kind: type[T], what: str) -> None:
        """Messages call one of them `what`."""
        self.path = path
        self._kind: Any = kind
        self._what = what

    def append(self, records: Iterable[T]) -> None:
        """Add lines; they are on disk when this returns, or a RunError says why not."""
        for record in records:
            append_line(self.path, _json_line(record))

    def write(self, records: Iterable[T]) -> None:
        """Replace all lines; raises RunError if writing fails."""
        write_text(self.path, "".join(map(_json_line, records)))

    def read(self) -> list[T]:
        """What the whole lines hold, if the file is there.

        Raises:
            RunError: a line holds something else.
        """
        values = []
        for number, line in enumerate(read_lines(self.path), start=1):
            try:
                values.append(_adapter(self._kind).validate_python(parse_json(line)))
            except ValueError as error:
                raise RunError(f"line {number} of {self.path} is not {self._what}; delete the line") from error
        return values


def remove_torn_line(path: Path) -> None:
    """Delete the last line of a file, if there is one, that a kill cut off."""
    if path.exists():
        whole, newline, torn = read_bytes(path).rpartition(b"\n")
        if torn:
            write_text(path, (whole + newline).decode())


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all; values that JSON lacks are written as their `str`."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")  # lone surrogates as JSON escapes


def write_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary folder, then rename it to `path`; an older version is deleted."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}-{os.getpid()}")
    with naming(path):
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            write(temporary)
            sync_tree(temporary)
            _swap(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Delete a folder so that it is never seen half deleted under its name."""
    doomed = path.with_name(f"{TEMPORARY}delete-{path.name}")
    with naming(path):
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(path, doomed)
        shutil.rmtree(doomed)


def clean_leftovers(folder: Path) -> None:
    """Clean up after killed writers in `folder`: delete temporaries, restore a folder that was being replaced."""
    with naming(folder):
        for leftover in list(folder.glob(f"{REPLACED}*")):
            target = folder / leftover.name.removeprefix(REPLACED)
            if not target.exists():
                os.rename(leftover, target)
            else:
                remove(leftover)
        for leftover in list(folder.glob(f"{TEMPORARY}*")):
            remove(leftover)


def remove(path: Path) -> None:
    """Delete a file, a link or a folder."""
    with naming(path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def sync(path: Path) -> None:
    """Flush a file, or a folder's list of names, to disk."""
    handle = os.open(path, os.O_RDONLY | (os.O_DIRECTORY if path.is_dir() else os.O_NOFOLLOW))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Flush a folder with everything in it to disk."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent, name))
        sync(Path(parent))


def _swap(temporary: Path, path: Path) -> None:
    """Rename the older folder first, since a rename cannot replace it; `clean_leftovers` undoes a half-done swap."""
    replaced = path.with_name(f"{REPLACED}{path.name}")
    if path.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        os.rename(path, replaced)
    os.rename(temporary, path)
    sync(path.parent)
    shutil.rmtree(replaced, ignore_errors=True)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # not where a command writes a file before it has anything to check

    return TypeAdapter(kind)


def _json_line(record: Any) -> str:
    return encodable(json.dumps(asdict(record), ensure_ascii=False, allow_nan=False)) + "\n"


def _fill(path: Path, text: str) -> None:
    with os.fdopen(open_to_write(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as file:
        file.write(text)
