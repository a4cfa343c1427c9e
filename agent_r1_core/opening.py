"""The one place that opens files which may come from elsewhere: a stranger's run, model, index, recipe or data.

Reading takes regular files only, also through links, never waits, and reads no more than a bound. Writing takes regular
files only, never through a link, and none that has a second name. What a library opens itself is checked just before;
a file that is swapped in between escapes that check, as does a file system that waits.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

from agent_r1_core.errors import NotOpened

DOCUMENT = 2**26
"""The most bytes of a file that is one JSON or YAML value."""
LINES = 2**29
"""The most bytes of a file of lines that is read whole: metrics of 150,000 steps, or 100,000 long episodes."""
_PARSED = (".json", ".jinja", ".model", "merges.txt", "vocab.txt")
"""Files that libraries read whole."""
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_to_read(path: Path | str, most: int | None = None) -> BufferedReader:
    """Open a regular file for reading bytes.

    Args:
        most: the most bytes that it may have; None: any number, for readers that take a part at a time.

    Raises:
        NotOpened: it is a pipe, a socket or a device, or has more bytes.
        OSError: it is missing, a folder, or not readable.
    """
    return os.fdopen(handle_to_read(path, most), "rb")


def handle_to_read(path: Path | str, most: int | None = None) -> int:
    """The same as a descriptor, which the caller closes."""
    _check(os.stat(path), path, most)  # first, since some devices act when they are opened
    handle = os.open(path, os.O_RDONLY | _FLAGS)
    try:
        _check(os.fstat(handle), path, most)
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_bytes(path: Path | str, most: int = LINES) -> bytes:
    """The content of a file, as far as it went when it was opened; raises as `open_to_read`."""
    with open_to_read(path, most) as file:
        return file.read(min(os.fstat(file.fileno()).st_size, most))


def read_text(path: Path | str, most: int = DOCUMENT) -> str:
    r"""The content of a file in UTF-8, every line of which ends with `\n`; raises as `open_to_read`.

    Raises:
        UnicodeDecodeError: it holds something else.
    """
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path | str, most: int = DOCUMENT) -> Any:
    """The JSON value in a file; raises as `open_to_read` and `parse_json`."""
    return parse_json(read_bytes(path, most))


def parse_json(content: bytes | str) -> Any:
    """The JSON value in a text in UTF-8; a ValueError where it is none, or nested too deeply."""
    try:
        return json.loads(content if isinstance(content, str) else content.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def check_regular(path: Path | str, most: int | None = None) -> None:
    """Refuse what a library is about to open, unless it is a regular file; raises as `open_to_read`."""
    _check(os.stat(path), path, most)


def check_folder(folder: Path | str, *below: str) -> None:
    """Refuse a folder whose files a library is about to open, if there is a pipe, a socket or a device among them.

    Args:
        below: folders in it of which the library opens files, too.

    Raises:
        NotOpened: there is one, or a file that libraries read whole has more bytes than the bound of files of lines.
        OSError: the folder is missing or not readable.
    """
    for part in (folder, *(Path(folder, name) for name in below if Path(folder, name).is_dir())):
        for file in sorted(Path(part).iterdir()):
            if file.is_dir() or not file.exists():
                continue
            check_regular(file, LINES if file.name.endswith(_PARSED) else None)


def open_to_write(path: Path | str, flags: int) -> int:
    """Open a regular file of this very folder for writing, as `os.open` does; the caller closes the descriptor.

    Args:
        flags: of `os.open`, such as `os.O_WRONLY | os.O_CREAT`.

    Raises:
        NotOpened: it is a link, a pipe, a socket or a device, or the file has another name, too.
        OSError: the file system refuses.
    """
    with contextlib.suppress(FileNotFoundError):  # it is about to be created
        _check_own(os.lstat(path), path)
    handle = os.open(path, (flags & ~os.O_TRUNC) | os.O_NOFOLLOW | _FLAGS, 0o666)
    try:
        _check_own(os.fstat(handle), path)
        if flags & os.O_TRUNC:
            os.ftruncate(handle, 0)
    except BaseException:
        os.close(handle)
        raise
    return handle


def check_inside(path: Path | str, *folders: Path | str) -> None:
    """Refuse a path that is, or lies below, a link out of all of the folders; a missing one lies where it would.

    Raises:
        NotOpened: it does.
    """
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
        raise refused(path, f"it is a link that leads out of {', '.join(map(str, folders))}")


def check_links(folder: Path | str, within: Path | str | None = None) -> None:
    """Refuse a folder, which is about to be written, if a link in it leads out of it; it looks into no folder below.

    Args:
        within: a folder above out of which no link may lead, in place of this one.

    Raises:
        NotOpened: one does.
    """
    for name in os.listdir(folder):
        if os.path.islink(path := os.path.join(folder, name)):
            check_inside(path, within or folder)


def _check(found: os.stat_result, path: Path | str, most: int | None) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise refused(path, f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'something else')}, not a file")
    if most is not None and found.st_size > most:
        raise refused(path, f"it has {found.st_size} bytes, and at most {most} are read")


def _check_own(found: os.stat_result, path: Path | str) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise refused(path, "it is a link, and nothing is written through links")
    _check(found, path, None)
    if found.st_nlink > 1:
        raise refused(path, "the same file has another name elsewhere, which writing would change, too; copy it")


def refused(path: Path | str, why: str) -> NotOpened:
    """The error of what is not opened."""
    return NotOpened(errno.EINVAL, why, str(path))


_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
