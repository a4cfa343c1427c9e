"""RecordsConfig: where the records of a task source come from, and which of them to take."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agent_r1_core.contracts.component import ComponentConfig, DataPath
from agent_r1_core.errors import TaskError
from agent_r1_core.opening import DOCUMENT
from agent_r1_core.records.files import NOTHING_NAMED, READERS, read_places, stream_records

_SMALL = 2**23
"""Bytes of a file or folder whose tasks are made within seconds."""


@dataclass(frozen=True)
class Record:
    """A record and its place."""

    index: int
    """How many records stand before it in the file or split."""
    where: str
    """`line 3 of FILE`, or `record 3 of FILE` where records are no lines, for messages; counted from 1."""
    content: Any


class RecordsConfig(ComponentConfig):
    """Options of a task source that reads records; a subclass sets `hub` (and `subset`)."""

    path: DataPath | None = None
    """A local file (.json, .jsonl, .jsonl.gz, .parquet, .csv) or folder; null: the hub."""
    hub: str = ""
    """Name of the data set on the hub."""
    subset: str | None = None
    """Its configuration on the hub; null: the only one."""
    split: str = "train"
    """Of the hub's data set or of a local folder."""
    size: int | None = Field(None, ge=1)
    """Records to take; null: all."""
    offset: int = Field(0, ge=0)
    """Records to skip at the beginning."""
    sample: Literal["first", "random"] = "first"
    """Which records behind the offset: the first ones, or a random choice that `seed` decides, in the file's order."""
    seed: int = 0
    """Seed of the random choice; the run's own seed has no part in it."""

    @property
    def origin(self) -> str:
        """Where the records come from, for messages."""
        return self.path or f"{self.hub} ({self.split})"

    @property
    def stem(self) -> str:
        """The file's name without its suffix, or the split, for the ids of records that have none."""
        return Path(self.path).stem if self.path else self.split

    def read(self, usable: Callable[[Record], bool] = lambda _: True) -> list[Record]:
        """The chosen records.

        Args:
            usable: which records count; the others are passed over before offset and size apply.

        Raises:
            TaskError: the source is missing, unreadable, or does not hold that many records.
        """
        places = read_places(self.path, hub=self.hub, subset=self.subset, split=self.split)
        every = (Record(index, where, content) for index, (where, content) in enumerate(places))
        records = [record for record in every if usable(record)]
        stop = len(records) if self.size is None else self.offset + self.size
        if stop > len(records) or self.offset >= len(records):
            asked = f"offset={self.offset}" + ("" if self.size is None else f" and size={self.size}")
            raise TaskError(
                f"{self.origin} holds {len(records)} records but {asked} was asked for; lower offset or size"
            )
        if self.size is None or self.sample == "first":
            return records[self.offset : stop]
        chosen = random.Random(f"{self.seed}/records").sample(range(self.offset, len(records)), self.size)
        return [records[place] for place in sorted(chosen)]

    @property
    def is_small(self) -> bool:
        """Whether all of it is read within seconds: a file or folder of at most 8 MiB."""
        path = Path(self.path or "")
        files = path.rglob("*") if path.is_dir() else [path]
        sizes = accumulate(file.stat().st_size for file in files if file.is_file())
        return self.path is not None and all(size <= _SMALL for size in sizes)

    def first(self, usable: Callable[[Record], bool] = lambda _: True) -> Record | None:
        """The first record behind the offset, read alone; None where that takes long: from the hub, a folder, or a
        `.json` file of more than 64 MiB, which is read whole.

        Args:
            usable: as in `read`.

        Raises:
            TaskError: the file is missing, unreadable up to there, or holds no such record.
        """
        if self.path is None or Path(self.path).is_dir():
            return None
        if self.path.lower().endswith(".json") and os.path.exists(self.path) and os.path.getsize(self.path) > DOCUMENT:
            return None
        every = (Record(index, where, content) for index, (where, content) in enumerate(stream_records(self.path)))
        record = next(islice(filter(usable, every), self.offset, None), None)
        return record or self.read(usable)[0]  # which says what is wrong

    def unavailable(self) -> str | None:
        """Why this machine cannot read it: folders and the hub need the package `datasets`."""
        if self.path is None and not self.hub:
            return NOTHING_NAMED
        is_file = self.path is not None and (self.path.lower().endswith(tuple(READERS)) or not Path(self.path).is_dir())
        if is_file or find_spec("datasets") is not None:
            return None
        return (
            f"reading {self.origin} needs the package datasets; run `pip install 'agent-r1[hub]'` or set path to a file"
        )

    def idle(self) -> dict[str, str]:
        """Options without effect, for `idle_options`: a local path needs no hub, a single file has no splits, and what
        is not drawn needs no seed."""
        idle: dict[str, str] = {}
        if self.path is not None:
            idle = dict.fromkeys(("hub", "subset"), "path names a local source")
            if self.path.lower().endswith(tuple(READERS)):
                idle["split"] = "path names a single file, which has no splits"
        if self.size is None:
            idle["sample"] = "size is not set, so that every record is taken"
        if self.size is None or self.sample == "first":
            idle["seed"] = "no records are drawn; it needs size and sample=random"
        return idle
