"""Reads the records of a data set: a local JSON, JSON Lines or Parquet file, a folder, or a hub data set.

`read_records` holds a whole split in memory, `stream_records` a small part of a file. Folders and hub data sets need
the package `datasets`, from version 4 on, which runs no code of a data set.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pydantic import Field

from agent_r1_core.contracts.component import ComponentConfig, LocalPath
from agent_r1_core.contracts.encodable import encodable
from agent_r1_core.errors import TaskError

_HUB_TIMEOUT = 10.0
"""Seconds to wait for the hub's first answer."""
_PARQUET_ROWS = 10_000
"""Rows of a Parquet file that are in memory at a time."""


class RecordsConfig(ComponentConfig):
    """Options of a task source that reads records; a subclass sets `hub` (and `subset`)."""

    path: LocalPath | None = None
    """A local file (.json, .jsonl, .jsonl.gz, .parquet) or folder; null: the hub."""
    hub: str = ""
    """Name of the data set on the hub."""
    subset: str | None = None
    split: str = "train"
    """Of the hub's data set or of a local folder."""
    size: int | None = Field(None, ge=1)
    """Records to take; null: all."""
    offset: int = Field(0, ge=0)
    """Records to skip at the beginning."""

    @property
    def origin(self) -> str:
        """Where the records come from, for messages."""
        return self.path or f"{self.hub} ({self.split})"

    def read(self) -> list[tuple[str, Any]]:
        """The chosen records, each with its place (`record 3 of FILE`, counted from 0) for messages.

        Raises:
            TaskError: the source is missing, unreadable, or does not hold that many records.
        """
        records = read_records(self.path, hub=self.hub, subset=self.subset, split=self.split)
        stop = len(records) if self.size is None else self.offset + self.size
        if stop > len(records) or self.offset >= len(records):
            asked = f"offset={self.offset}" + ("" if self.size is None else f" and size={self.size}")
            raise TaskError(
                f"{self.origin} holds {len(records)} records but {asked} was asked for; lower offset or size"
            )
        return [(f"record {index} of {self.origin}", records[index]) for index in range(self.offset, stop)]

    def idle(self) -> dict[str, str]:
        """Options without effect, for `idle_options`: a local path needs no hub, a single file has no splits."""
        if self.path is None:
            return {}
        idle = dict.fromkeys(("hub", "subset"), "path names a local source")
        single = self.path.lower().endswith(tuple(_READERS))
        return idle | ({"split": "path names a single file, which has no splits"} if single else {})


def read_records(path: str | Path | None, *, hub: str, subset: str | None = None, split: str = "train") -> list[Any]:
    """The records of the file or folder `path`, or of the hub data set `hub` where `path` is None.

    A file is read as by `stream_records`; a folder is whatever `datasets.load_dataset` reads. `subset` and `split`
    select within a hub data set; `split` within a folder, too.

    Raises:
        TaskError: the source is missing, unreadable, or holds no record.
    """
    if path is None:
        records = _load_dataset(hub, subset, split)
    else:
        source = _existing(path)
        folder = source.is_dir()
        records = _load_dataset(str(source), None, split) if folder else [one for _, one in stream_records(source)]
    if not records:
        raise TaskError(f"{path or hub} holds no record; give a file or split that is not empty")
    return records


def text_field(record: Any, key: str, where: str) -> str:
    """The non-empty string under `key`, with `?` for what UTF-8 cannot encode.

    Raises:
        TaskError: it is missing, empty or no string; `where` names the record.
    """
    value = record.get(key) if isinstance(record, Mapping) else None
    if not isinstance(value, str) or not value.strip():
        what = type(record).__name__ if not isinstance(record, Mapping) else f"keys {sorted(map(str, record))}"
        raise TaskError(f"{where} has no text under {key!r} (it has {what}); give a file in the original format")
    return encodable(value.strip())


def stream_records(path: str | Path) -> Iterator[tuple[str, Any]]:
    """The records of a file, one at a time, each with its place (`line 3 of FILE`) for messages.

    `.jsonl` (also `.jsonl.gz`) holds one record a line, `.parquet` columns; `.json` holds a list, which is read whole.

    Raises:
        TaskError: the file is missing or unreadable.
    """
    source = _existing(path)
    name = source.name.lower()
    reader = next((reader for suffix, reader in _READERS.items() if name.endswith(suffix)), None)
    if reader is None:
        raise TaskError(
            f"{source} is not one of {', '.join(_READERS)}; convert it, or give it the suffix of its format"
        )
    try:
        yield from reader(source)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TaskError(f"{source} is damaged or cut off ({_first_line(error)}); fetch it again") from error
    except OSError as error:
        raise TaskError(f"cannot read {source} ({error.strerror or error}); check its permissions") from error


def _existing(path: str | Path) -> Path:
    source = Path(os.path.expanduser(path))  # as Path.expanduser, which raises where there is no such user
    if not source.exists():
        raise TaskError(f"there is no data set at {source}; give the path of an existing file or folder")
    return source


def _read_json(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        records = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise TaskError(f"{path} is not JSON at line {error.lineno} ({error.msg}); repair or fetch it again") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not UTF-8 text at byte {error.start}; convert it to UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{path} {_beyond(error)}; repair or fetch it again") from error
    if not isinstance(records, list):
        raise TaskError(f"{path} holds a JSON {type(records).__name__}, not a list of records; wrap them in a list")
    for index, record in enumerate(records):
        yield f"record {index} of {path}", record


def _read_jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
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


def _beyond(error: ValueError | RecursionError) -> str:
    """What Python does not read, though it is JSON."""
    return "is nested too deeply" if isinstance(error, RecursionError) else "holds a number with too many digits"


def _read_parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    index = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_PARQUET_ROWS):
                for record in batch.to_pylist():
                    yield f"record {index} of {path}", record
                    index += 1
    except pyarrow.ArrowException as error:
        raise TaskError(f"{path} is not a readable Parquet file ({_first_line(error)}); fetch it again") from error


_READERS: dict[str, Callable[[Path], Iterator[tuple[str, Any]]]] = {
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".jsonl.gz": _read_jsonl,
    ".parquet": _read_parquet,
}


def _load_dataset(name: str, subset: str | None, split: str) -> list[Any]:
    """A data set of the hub, or a local folder; from the cache alone where the hub does not answer."""
    try:
        import datasets
    except ImportError as error:
        raise TaskError(
            f"reading {name} needs the package datasets; run `pip install 'agent-r1[hub]'` or set `path` to a file"
        ) from error
    reachable = Path(name).is_dir() or _hub_answers(name)
    try:
        with nullcontext() if reachable else _offline():
            return datasets.load_dataset(name, subset, split=split).to_list()
    except Exception as error:  # the hub client raises whatever its layers raise
        which = f"{name} (subset {subset}, split {split})" if subset else f"{name} (split {split})"
        where = "" if reachable else " from the cache, since the hub does not answer"
        raise TaskError(
            f"cannot load the data set {which}{where}: {_first_line(error)}; check its name, split and the network, "
            f"or set `path` to a local file"
        ) from error


def _hub_answers(name: str) -> bool:
    """Ask the hub once; `datasets` would retry for most of a minute before it reports that there is no network."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().dataset_info(name, timeout=_HUB_TIMEOUT)
    except HfHubHTTPError:
        return True  # it answered; `datasets` will say what is wrong
    except Exception:  # whatever the HTTP client raises when it cannot connect or must stay offline
        return False
    return True


@contextmanager
def _offline() -> Iterator[None]:
    """Set HF_HUB_OFFLINE=1 for a while."""
    from datasets import config
    from huggingface_hub import constants

    before = config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
