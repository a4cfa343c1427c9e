"""BoundedParquet: a Parquet file of any origin, read as long as what it stands for stays within a bound.

Dictionaries, runs and compression let kilobytes stand for gigabytes. What the file says of its columns is added up
before any of them is read; texts are read as dictionaries, and added up before they are spelled out. Arrow cannot do
that for texts inside lists and structures: as many rows of them are read at once as the first few are light, and added
up then, so that what is read at once costs up to 2 GiB, as does a page that contradicts what the file says of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from agent_r1_core.opening import check_regular, refused

LEAST = 2**29
"""Bytes that any file may stand for."""
RATIO = 100
"""Times its own size that a file may stand for; trajectories reach ten times."""
_VALUE = 16
"""Bytes that a value without text stands for."""
_FEW = 64
"""Rows with texts inside lists or structures that are read at once, unless they are light."""
_AT_ONCE = 2**25
"""Bytes that rows which are read, or spelled out, at once stand for, if one of them does not stand for more."""


class BoundedParquet:
    """An open file; its texts count once for every read."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path = path
        self.metadata = file.metadata
        self.names: list[str] = file.schema_arrow.names
        self.about: dict[bytes, bytes] = file.schema_arrow.metadata or {}
        """What its writer noted beside the columns."""
        self._file = file
        self._texts_inside = any(column.path not in self.names for column in _texts(self.metadata))
        self._most = max(LEAST, RATIO * os.path.getsize(path))

    def read(self, names: Sequence[str] | None = None, **options: Any) -> Any:
        """These columns, or all, as an Arrow table; NotOpened where they stand for more than the bound."""
        import pyarrow as pa

        if self._texts_inside:
            batches = list(self.batches(self.metadata.num_rows or 1, columns=names, **options))
            table = pa.Table.from_batches(batches) if batches else self._file.read(names, **options)
        else:
            table = self._file.read(names, **options)
            self._count(table, 0)
        return pa.table({name: _plain(table.column(name)) for name in table.column_names})

    def batches(self, rows: int, **options: Any) -> Iterator[Any]:
        """Arrow's batches of at most so many rows, without dictionaries; `options` as of `iter_batches`.

        Raises:
            NotOpened: up to here they stand for more than the bound.
        """
        spelled = 0
        for batch in self._file.iter_batches(self._at_once(rows, **options), **options):
            spelled = self._count(batch, spelled)
            yield from _spell(batch)

    def check_metadata(self) -> None:
        """Raise NotOpened if the file says that it stands for more than the bound, or contradicts itself."""
        groups = [self.metadata.row_group(number) for number in range(self.metadata.num_row_groups)]
        if sum(group.num_rows for group in groups) != self.metadata.num_rows:
            raise refused(self.path, "its parts have another number of rows than it")
        total = 0
        for group in groups:
            for number in range(group.num_columns):
                column = group.column(number)
                if column.num_values < group.num_rows:
                    raise refused(self.path, "a column has fewer values than rows")
                width = max(_VALUE, self.metadata.schema.column(number).length)
                total += column.total_uncompressed_size + width * column.num_values
        self._refuse(total)

    def _at_once(self, rows: int, **options: Any) -> int:
        """The rows, at most so many, to read at once."""
        few = min(rows, _FEW)
        if few == rows or not self._texts_inside:
            return rows
        first = sum(self._count(batch, 0) for batch in islice(self._file.iter_batches(few, **options), 1))
        return max(few, min(rows, few * _AT_ONCE // max(1, first)))

    def _count(self, columns: Any, before: int) -> int:
        total = before + sum(map(_spelled, columns.columns))
        self._refuse(total)
        return total

    def _refuse(self, total: int) -> None:
        if total > self._most:
            raise refused(self.path, f"it stands for {total:,} bytes, and at most {self._most:,} are read")


@contextmanager
def open_parquet(path: Path, **options: Any) -> Iterator[BoundedParquet]:
    """Open a file for as long as the context lasts.

    Args:
        options: those of `pyarrow.parquet.ParquetFile`.

    Raises:
        NotOpened: it is no regular file, or stands for too much.
        OSError, pyarrow.ArrowException: it is missing or damaged.
    """
    import pyarrow.parquet as pq

    check_regular(path)
    with pq.ParquetFile(path, **options) as file:
        BoundedParquet(path, file).check_metadata()
        texts = [column.path for column in _texts(file.metadata) if column.path in file.schema_arrow.names]
        with pq.ParquetFile(path, metadata=file.metadata, read_dictionary=texts, **options) as spelled:
            yield BoundedParquet(path, spelled)


def _texts(metadata: Any) -> list[Any]:
    """The columns of texts or bytes, those inside of others too."""
    columns = [metadata.schema.column(number) for number in range(len(metadata.schema))]
    return [column for column in columns if column.physical_type == "BYTE_ARRAY"]


def _spell(batch: Any) -> Iterator[Any]:
    """The rows of a batch, in smaller ones where they are many bytes, whose dictionaries are spelled out."""
    from pyarrow import types

    coded = [number for number, column in enumerate(batch.columns) if types.is_dictionary(column.type)]
    if batch.num_rows > 1 and sum(_spelled(batch.column(number)) for number in coded) > _AT_ONCE:
        half = batch.num_rows // 2
        yield from _spell(batch.slice(0, half))
        yield from _spell(batch.slice(half))
        return
    for number in coded:
        batch = batch.set_column(number, batch.schema.names[number], _plain(batch.column(number)))
    yield batch


def _plain(column: Any) -> Any:
    """A column whose dictionaries are spelled out."""
    from pyarrow import types

    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def _spelled(array: Any) -> int:
    """Bytes of an array, or a column, whose dictionaries are spelled out."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    if isinstance(array, pa.ChunkedArray):
        return sum(map(_spelled, array.chunks))
    kind = array.type
    if types.is_dictionary(kind) and not types.is_primitive(kind.value_type):
        lengths = pc.binary_length(array.dictionary)
        return len(array) * _VALUE + int(pc.sum(lengths.take(array.indices)).as_py() or 0)
    if types.is_map(kind):
        return _spelled(array.keys) + _spelled(array.items)
    if types.is_nested(kind):
        inside = array.flatten()
        return len(array) * _VALUE + (sum(map(_spelled, inside)) if isinstance(inside, list) else _spelled(inside))
    return int(array.nbytes)
