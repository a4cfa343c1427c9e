"""Reads the records of a data set: a local JSON, JSON Lines, Parquet or CSV file, a folder, or a hub data set.

`read_records` holds a whole split in memory, `stream_records` a small part of a file. Folders and hub data sets need
the package `datasets`, from version 4 on, which runs no code of a data set.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, AnyStr

from agent_r1_core.contracts.markup import encodable
from agent_r1_core.errors import NotOpened, TaskError, first_line
from agent_r1_core.opening import DOCUMENT, open_to_read, read_bytes
from agent_r1_core.parquet import open_parquet
from agent_r1_core.records.hub import load_dataset
from agent_r1_core.work import working

_NAMED, _LONGEST_NAME = 8, 40
"""Keys that a message names, and characters of each."""
_KINDS = {dict: "object", str: "text", int: "number", float: "number"}
_PARQUET_ROWS = 10_000
"""Rows of a Parquet file that are in memory at a time."""
NOTHING_NAMED = "no data set is named; set path to a file or folder, or hub to a data set's name"
_WHOLE = 2**32
"""The most bytes of a file that is read whole."""


def read_records(path: str | Path | None, *, hub: str, subset: str | None = None, split: str = "train") -> list[Any]:
    """The records of the file or folder `path`, or of the hub data set `hub` where `path` is None.

    A file is read as by `stream_records`; a folder is whatever `datasets.load_dataset` reads. `subset` and `split`
    select within a hub data set; `split` within a folder, too.

    Raises:
        TaskError: the source is missing, unreadable, or holds no record.
    """
    return [record for _, record in read_places(path, hub=hub, subset=subset, split=split)]


def read_places(
    path: str | Path | None, *, hub: str, subset: str | None = None, split: str = "train"
) -> list[tuple[str, Any]]:
    """As `read_records`, each record with its place for messages: as `stream_records` says for a file, else
    `record 3 of NAME (SPLIT)`, counted from 1."""
    if path is None and not hub:
        raise TaskError(NOTHING_NAMED)
    source = None if path is None else _existing(path)
    if source is not None and not source.is_dir():
        records = list(stream_records(source))
    else:
        name, subset = (hub, subset) if source is None else (str(source), None)
        loaded = load_dataset(name, subset, split)
        records = [(f"record {number} of {name} ({split})", one) for number, one in enumerate(loaded, 1)]
    if not records:
        raise TaskError(f"{path or hub} holds no record; give a file or split that is not empty")
    return records


def text_field(record: Any, key: str, where: str) -> str:
    """The non-empty string under `key`, with `?` for what UTF-8 cannot encode.

    Raises:
        TaskError: it is missing, empty or no string; `where` names the record.
    """
    value = record.get(key) if isinstance(record, Mapping) else None
    if isinstance(value, str) and value.strip():
        return encodable(value.strip())
    if not isinstance(record, Mapping):
        why = f"the record is a {type(record).__name__}, not an object with keys"
    elif key not in record:
        why = f"it has keys {_listed(record)}"
    elif value is None or isinstance(value, str):
        raise TaskError(f"{where} has an empty {key!r}; fill it in, or leave the record out")
    else:
        why = f"what stands there is of type {type(value).__name__}"
    raise TaskError(f"{where} has no text under {key!r} ({why}); give a file whose records have one")


def _listed(record: Mapping[Any, Any]) -> str:
    """The first of its keys, cut."""
    keys = sorted(map(str, record))
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return f"{[key if len(key) <= _LONGEST_NAME else key[:_LONGEST_NAME] + '...' for key in keys[:_NAMED]]}{more}"


def stream_records(
    path: str | Path, of_object: Callable[[dict[str, Any]], list[Any] | None] = lambda _: None
) -> Iterator[tuple[str, Any]]:
    """The records of a file, one at a time, each with its place for messages: `line 3 of FILE` where records are
    lines, else `record 3 of FILE`, both counted from 1.

    `.jsonl` (also `.jsonl.gz`) holds one record a line, `.parquet` columns, `.csv` texts below a line of keys; `.json`
    holds a list, or records as `.jsonl` does, and is read whole.

    Args:
        path: the file.
        of_object: the records in a `.json` file that holds one object instead; None: the object is refused.

    Raises:
        TaskError: the file is missing or unreadable.
    """
    source = _existing(path)
    name = source.name.lower()
    reader = next((reader for suffix, reader in READERS.items() if name.endswith(suffix)), None)
    if reader is None:
        raise TaskError(f"{source} is not one of {', '.join(READERS)}; convert it, or give it the suffix of its format")
    try:
        yield from _read_json(source, of_object) if reader is _read_json else reader(source)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TaskError(f"{source} is damaged or cut off ({first_line(error)}); fetch it again") from error
    except NotOpened as error:
        raise TaskError(f"{error}; give a regular file of records") from error
    except OSError as error:
        raise TaskError(f"cannot read {source} ({error.strerror or error}); check its permissions") from error


def _existing(path: str | Path) -> Path:
    source = Path(os.path.expanduser(path))  # as Path.expanduser, which raises where there is no such user
    if not source.exists():
        raise TaskError(f"there is no data set at {source}; give the path of an existing file or folder")
    return source


def _read_json(
    path: Path, of_object: Callable[[dict[str, Any]], list[Any] | None] = lambda _: None
) -> Iterator[tuple[str, Any]]:
    try:
        with working(f"reading {path.name}"):
            records = json.loads(read_bytes(path, _WHOLE).decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and error.lineno > 1:  # a second document
            yield from _read_jsonl(path)
            return
        raise TaskError(f"{path} is not JSON at line {error.lineno} ({error.msg}); repair or fetch it again") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not UTF-8 text at byte {error.start}; convert it to UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{path} {_beyond(error)}; repair or fetch it again") from error
    if isinstance(records, dict):
        records = of_object(records) or records
    if not isinstance(records, list):
        raise TaskError(
            f"{path} holds one JSON {_KINDS.get(type(records), 'value')}, not a list of records; give a list of "
            "objects, one for each record"
        )
    for number, record in enumerate(records, 1):
        yield f"record {number} of {path}", record


def _read_jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    with open_to_read(path) as file, working(f"reading {path.name}", path.stat().st_size, unit="bytes") as work:
        plain = gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file
        for number, line in enumerate(_lines(plain.readline, path), 1):
            work.advance(file.tell() - work.done)
            place = f"line {number} of {path}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if text.strip():
                    yield place, json.loads(text)
            except json.JSONDecodeError as error:
                raise TaskError(f"{place} is not JSON ({error.msg}); repair or remove it") from error
            except UnicodeDecodeError as error:
                raise TaskError(f"{place} is not UTF-8 text at byte {error.start}; convert it to UTF-8") from error
            except (ValueError, RecursionError) as error:
                raise TaskError(f"{place} {_beyond(error)}; repair or remove it") from error


def _lines(readline: Callable[[int], AnyStr], path: Path) -> Iterator[AnyStr]:
    """The lines of a file, none of which is taken into memory beyond the bound."""
    for number in count(1):
        line = readline(DOCUMENT + 1)
        if len(line) > DOCUMENT:
            raise TaskError(f"line {number} of {path} is longer than {DOCUMENT:,} bytes; give one record on a line")
        if not line:
            return
        yield line


def _beyond(error: ValueError | RecursionError) -> str:
    """What Python does not read, though it is JSON."""
    return "is nested too deeply" if isinstance(error, RecursionError) else "holds a number with too many digits"


def _as_written(batch: Any) -> Any:
    """The batch with numbers of 32 bits as the decimal ones that were meant: 0.1, not 0.10000000149011612."""
    import pyarrow as pa

    for place, field in enumerate(batch.schema):
        if field.type == pa.float32():
            numbers = batch.column(place).cast(pa.string()).cast(pa.float64())
            batch = batch.set_column(place, field.name, numbers)
    return batch


def _read_parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow

    number = 0
    try:
        with (
            open_parquet(path) as file,
            working(f"reading {path.name}", file.metadata.num_rows, unit="records") as work,
        ):
            for batch in file.batches(_PARQUET_ROWS):
                for record in _as_written(batch).to_pylist():
                    number += 1
                    yield f"record {number} of {path}", record
                work.advance(batch.num_rows)
    except pyarrow.ArrowException as error:
        raise TaskError(f"{path} is not a readable Parquet file ({first_line(error)}); fetch it again") from error


def _read_csv(path: Path) -> Iterator[tuple[str, Any]]:
    with open_to_read(path) as file, working(f"reading {path.name}", path.stat().st_size, unit="bytes") as work:
        rows = csv.reader(_lines(io.TextIOWrapper(file, encoding="utf-8-sig", newline="").readline, path), strict=True)
        try:
            keys, first = next(rows, []), rows.line_num + 1
            if len(set(keys)) < len(keys):
                raise TaskError(f"the first line of {path} names a column twice; give each its own name")
            for row in rows:
                work.advance(file.tell() - work.done)
                place, first = f"line {first} of {path}", rows.line_num + 1  # a row with line breaks has several lines
                if not row:
                    continue
                if len(row) != len(keys):
                    raise TaskError(f"{place} has {len(row)} values, but the first line names {len(keys)}; repair it")
                yield place, dict(zip(keys, row, strict=True))
        except csv.Error as error:
            raise TaskError(f"line {rows.line_num} of {path} is not CSV ({error}); repair it") from error
        except UnicodeDecodeError as error:
            raise TaskError(f"{path} is not UTF-8 text at byte {error.start}; convert it to UTF-8") from error


READERS: dict[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".jsonl.gz": _read_jsonl,
    ".parquet": _read_parquet,
    ".csv": _read_csv,
}
"""Readers of single files by the end of their names."""
