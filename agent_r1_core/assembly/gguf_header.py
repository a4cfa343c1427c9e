"""Reads the header of a GGUF file and holds its claims against the file's length, before a library believes them.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Versions 2 and 3, little-endian.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from io import BufferedReader
from math import prod
from pathlib import Path

from agent_r1_core.errors import ModelError
from agent_r1_core.opening import open_to_read

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _ARRAY = 8, 9
_VERSIONS = (2, 3)
_MOST_ITEMS = 2**21
"""Keys, tensors and items of arrays in all; readers in Python take up to two KB for each. A vocabulary of 262,144
tokens with scores, types and merges has 1.3 million."""
_MOST_DIMENSIONS = 4


class _Wrong(Exception):
    """What is wrong with the file, in words that follow its name."""


@dataclass
class GgufHeader:
    values: dict[str, str | int | float] = field(default_factory=dict)
    """Of all keys but arrays."""
    arrays: dict[str, int] = field(default_factory=dict)
    """Lengths of arrays."""
    tensors: dict[str, int] = field(default_factory=dict)
    """How many numbers each tensor holds."""

    @classmethod
    def read(cls, file: Path) -> GgufHeader:
        """The header of `file`; the package `gguf`, which knows the sizes of types, must be installed.

        Raises:
            ModelError: it is no GGUF file, is cut off, or claims more than it holds.
            OSError: it cannot be opened.
        """
        with open_to_read(file) as opened:
            try:
                return _read(_Cursor(opened))
            except _Wrong as error:
                raise ModelError(f"{file} {error}") from None
            except UnicodeDecodeError:
                raise ModelError(f"{file} is damaged, since a text in it is not UTF-8; copy the file again") from None

    @property
    def architecture(self) -> str:
        """The name of the model's architecture, such as `llama`."""
        return str(self.values.get("general.architecture", ""))


class _Cursor:
    """A place in the file, and how much is left behind it."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self.length = self.left = os.fstat(file.fileno()).st_size
        self._items = 0

    def take(self, count: int) -> bytes:
        self._claim(count)
        return self._file.read(count)

    def skip(self, count: int) -> None:
        self._claim(count)
        self._file.seek(count, os.SEEK_CUR)

    def number(self, kind: str) -> int:
        """An integer; `kind` as in `struct`."""
        value: int = struct.unpack(kind, self.take(struct.calcsize(kind)))[0]
        return value

    def text(self) -> str:
        return self.take(self.number("<Q")).decode()

    def items(self, count: int) -> range:
        """Count items, each of which costs a reader memory."""
        self._items += count
        if self._items > _MOST_ITEMS:
            raise _Wrong(f"is not opened, since its header claims more than {_MOST_ITEMS:,} items")
        return range(count)

    def _claim(self, count: int) -> None:
        if count > self.left:
            raise _Wrong("is cut off or damaged, since its header claims more than the file holds; copy the file again")
        self.left -= count


def _read(cursor: _Cursor) -> GgufHeader:
    if cursor.length < 24 or cursor.take(4) != b"GGUF":
        raise _Wrong("is not a GGUF file; give one, or a folder in Hugging Face format")
    version = cursor.number("<I")
    if version not in _VERSIONS:
        raise _Wrong(f"is GGUF of version {version}, and versions 2 and 3 are read; convert the model again")
    header, tensors, keys = GgufHeader(), cursor.number("<Q"), cursor.number("<Q")
    for _ in cursor.items(keys):
        key, kind = cursor.text(), cursor.number("<I")
        if kind == _ARRAY:
            header.arrays[key] = _skip_array(cursor)
        else:
            header.values[key] = cursor.text() if kind == _TEXT else cursor.number(_format(kind))
    stored, end = 0, 0
    for _ in cursor.items(tensors):
        name, numbers, size, offset = _tensor(cursor)
        header.tensors[name] = numbers
        stored, end = stored + size, max(end, offset + size)
    if max(stored, end) > cursor.left:  # `stored` is more where tensors share bytes
        raise _Wrong("is cut off or damaged, since its tensors are longer than the file; copy the file again")
    return header


def _skip_array(cursor: _Cursor) -> int:
    kind, length = cursor.number("<I"), cursor.number("<Q")
    items = cursor.items(length)
    if kind == _TEXT:
        for _ in items:
            cursor.skip(cursor.number("<Q"))
    else:
        cursor.skip(length * struct.calcsize(_format(kind)))
    return length


def _format(kind: int) -> str:
    if kind not in _NUMBERS:
        raise _Wrong(f"is damaged, since its header holds a value of type {kind}; copy the file again")
    return _NUMBERS[kind]


def _tensor(cursor: _Cursor) -> tuple[str, int, int, int]:
    """A tensor's name, how many numbers and bytes it has, and where it begins behind the header."""
    from gguf.constants import GGML_QUANT_SIZES

    name, dimensions = cursor.text(), cursor.number("<I")
    if dimensions > _MOST_DIMENSIONS:
        raise _Wrong(f"is damaged, since its tensor {name} has {dimensions} dimensions; copy the file again")
    numbers = prod(cursor.number("<Q") for _ in range(dimensions))
    kind, offset = cursor.number("<I"), cursor.number("<Q")
    sizes = {int(known): size for known, size in GGML_QUANT_SIZES.items()}
    if kind not in sizes:
        raise _Wrong(f"has a tensor {name} of type {kind}, which the package gguf does not know; install a newer one")
    together, size = sizes[kind]
    return name, numbers, numbers // together * size, offset
