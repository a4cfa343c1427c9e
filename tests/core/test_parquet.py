"""Files of kilobytes that stand for gigabytes are refused before they take the memory, whatever makes them small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent_r1_core.errors import NotOpened, TaskError
from agent_r1_core.parquet import open_parquet
from agent_r1_core.records.files import stream_records

LONG, TIMES = 3_200_000, 1024


def repeated() -> pa.DictionaryArray:
    """3.3 GB of text, as one text and how often it comes."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * TIMES, pa.int32()), pa.array(["x" * LONG]))


BOMBS: dict[str, Callable[[], pa.Array]] = {
    "texts": repeated,
    "nothing": lambda: pa.nulls(40_000_000, pa.int8()),
    "zeros": lambda: pa.repeat(pa.scalar(0, pa.int8()), 40_000_000),
    "lists": lambda: pa.ListArray.from_arrays(
        pa.array([0, 40_000_000], pa.int32()), pa.repeat(pa.scalar(0, pa.int8()), 40_000_000)
    ),
}


def write(path: Path, column: pa.Array, **options: Any) -> Path:
    pq.write_table(pa.table({"column": column}), path, compression="zstd", dictionary_pagesize_limit=2**30, **options)
    return path


READERS: dict[str, Callable[[Path], Any]] = {
    "whole": lambda path: opened(path, lambda file: file.read()),
    "in batches": lambda path: opened(path, lambda file: list(file.batches(TIMES))),
    "as records": lambda path: list(stream_records(path)),
}


def opened(path: Path, read: Callable[[Any], Any]) -> Any:
    with open_parquet(path) as file:
        return read(file)


@contextmanager
def in_little_memory() -> Iterator[None]:
    """Arrow takes little more meanwhile."""
    pool = pa.default_memory_pool()
    most = pool.max_memory()
    yield
    assert pool.max_memory() - most < 2**28


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_what_is_too_much_is_refused_before_it_is_read(bomb, tmp_path):
    path = write(tmp_path / "bomb.parquet", BOMBS[bomb]())
    assert path.stat().st_size < 400_000
    for read in READERS.values():
        refused = pytest.raises((NotOpened, TaskError), match=r"it stands for [0-9,]+ bytes, and at most 536,870,912 ")
        with in_little_memory(), refused:
            read(path)


def test_texts_inside_lists_are_read_a_few_rows_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("agent_r1_core.parquet.LEAST", 2**26)
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * 100_000]))
    lists = pa.ListArray.from_arrays(pa.array(range(1001), pa.int32()), texts)
    maps = pa.MapArray.from_arrays(pa.array(range(1001), pa.int32()), texts, texts)
    for column in (lists, maps, pa.StructArray.from_arrays([lists, texts], ["lists", "texts"])):
        for known in (True, False):  # whether the file says that they are dictionaries
            path = write(tmp_path / "bomb.parquet", column, store_schema=known)
            for read in READERS.values():
                refused = pytest.raises((NotOpened, TaskError), match=r"it stands for .*, and at most 67,108,864 are")
                with in_little_memory(), refused:
                    read(path)


def test_what_was_written_is_read(tmp_path):
    table = pa.table(
        {
            "text": ["a", "b", None, "a"] * 5,
            "long": [["one", None], [], ["two"], None] * 5,
            "kind": pa.array([7, 8, 7, None] * 5).dictionary_encode(),
            "number": [1.5, 2.5, None, 4.5] * 5,
            "fields": [{"a": "x", "b": 1}, None, {"a": None, "b": 2}, {"a": "y", "b": 3}] * 5,
        }
    )
    pq.write_table(table, tmp_path / "file.parquet", row_group_size=7)
    with open_parquet(tmp_path / "file.parquet") as file:
        assert file.read().to_pylist() == table.to_pylist()
        assert file.read(["text"]).column("text").type == pa.string()
        assert [row for batch in file.batches(3) for row in batch.to_pylist()] == table.to_pylist()
    assert [record for _, record in stream_records(tmp_path / "file.parquet")] == table.to_pylist()


def test_light_rows_come_many_at_once_and_heavy_ones_few_all_of_them_plain(tmp_path):
    lists = pa.array([["a"]] * 1000)
    for length, many in ((1, True), (300_000, False)):
        text = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * length]))
        pq.write_table(pa.table({"text": text, "lists": lists}), tmp_path / "file.parquet")
        with open_parquet(tmp_path / "file.parquet") as file:
            found = list(file.batches(1000))
        assert sum(batch.num_rows for batch in found) == 1000
        assert (len(found) == 1) == many
        assert {batch.schema.field("text").type for batch in found} == {pa.string()}
        assert all(batch.num_rows == 1 or batch.nbytes <= 2**25 for batch in found)
