"""The checksums of a folder's files, and whether the files still have them.

The checksum is CRC-32: it sees every flipped byte, misses other damage once in four thousand million times, and takes a
second for some gigabytes. It is no protection against somebody who wants to deceive.

A checkpoint has those of its files in its `state.json`, the final model in `checksums.json` beside them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath

from agent_r1_core.errors import RunError
from agent_r1_core.opening import open_to_read, read_json
from agent_r1_core.runs.files import write_json
from agent_r1_core.work import working

MODEL_CHECKSUMS = "checksums.json"
_BLOCK = 2**22
"""Bytes that are read at once."""


def checksum_of(file: Path) -> int:
    """The CRC-32 of a file's content."""
    checksum, block = 0, memoryview(bytearray(_BLOCK))
    with open_to_read(file) as opened:
        while count := opened.readinto(block):
            checksum = zlib.crc32(block[:count], checksum)
    return checksum


def files_of(folder: Path) -> dict[str, dict[str, int]]:
    """What a record says of all files in a folder and below, by their names in it: sizes and checksums."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    checksums = {name: checksum_of(folder / name) for name in names}
    return {"files": {name: (folder / name).stat().st_size for name in names}, "crc32": checksums}


def damage_of(folder: Path, checksums: Mapping[str, int], what: str) -> str | None:
    """What is wrong with the files of a folder, such as `config.json has other bytes than were written`; None: nothing.
    A display of the work calls them `what`.

    Raises:
        RunError: a file is there and cannot be read.
    """
    with working(f"checking the files of {what}", len(checksums), unit="files") as work:
        for name, checksum in checksums.items():
            try:
                if checksum_of(folder / name) != checksum:
                    return f"{name} has other bytes than were written"
            except (FileNotFoundError, NotADirectoryError):
                return f"{name} is missing"
            except OSError as error:
                raise unreadable(folder, name, error) from error
            work.advance()
    return None


def check_names(names: Iterable[str]) -> None:
    """Raise a ValueError if a name is that of a file outside the folder."""
    if any(PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in names):
        raise ValueError("a file is outside the folder")


def unreadable(folder: Path, name: str, error: OSError) -> RunError:
    """The error of a file that the system cannot read, and for which nobody passes its folder over or deletes it."""
    return RunError(
        f"{folder / name} cannot be read ({error.strerror or error}), though it may be whole; make it readable and try "
        f"again, or delete {folder} to do without"
    )


def with_checksums(write: Callable[[Path], None]) -> Callable[[Path], None]:
    """`write`, which fills a folder with a model, and beside its files their checksums."""

    def fill(folder: Path) -> None:
        write(folder)
        write_json(folder / MODEL_CHECKSUMS, {"schema": 1, **files_of(folder)})

    return fill


def damage_of_model(folder: Path) -> str | None:
    """What is wrong with the files of a run's final model; None: nothing, or it has no checksums.

    Raises:
        RunError: a file is there and cannot be read.
    """
    try:
        record = read_json(folder / MODEL_CHECKSUMS)
        checksums, sizes = dict(record["crc32"]), dict(record["files"])
        check_names(checksums)
        for name in checksums:  # first, since a file may have grown too long to be read
            if (folder / name).exists() and (folder / name).stat().st_size != sizes[name]:
                return f"{name} has other bytes than were written"
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError):
        return f"{MODEL_CHECKSUMS} is damaged"
    except OSError as error:
        raise unreadable(folder, MODEL_CHECKSUMS, error) from error
    return damage_of(folder, checksums, "the final model")
