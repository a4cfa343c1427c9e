"""LAW 13, of models in GGUF: a header is held against the file before anything is read or made by its numbers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from agent_r1_core.assembly.model_source import find_model
from agent_r1_core.errors import ModelError

HUGE = 2**60
START = b"GGUF" + struct.pack("<I", 3)
KEY = struct.pack("<Q", 1) + b"k"
TENSOR = struct.pack("<QcIQIQ", 1, b"t", 1, 16, 0, 0)
HEADERS = {
    "keys": START + struct.pack("<QQ", 0, HUGE),
    "tensors": START + struct.pack("<QQ", HUGE, 0),
    "a text": START + struct.pack("<QQQ", 0, 1, HUGE),
    "an array": START + struct.pack("<QQ", 0, 1) + KEY + struct.pack("<IIQ", 9, 0, HUGE),
    "an array of arrays": START + struct.pack("<QQ", 0, 1) + KEY + struct.pack("<IIQ", 9, 9, 1) * 2,
    "dimensions": START + struct.pack("<QQ", 1, 0) + TENSOR[:9] + struct.pack("<I", 2**31),
    "a tensor": START + struct.pack("<QQ", 1, 0) + TENSOR.replace(struct.pack("<Q", 16), struct.pack("<Q", HUGE)),
    "an offset": START + struct.pack("<QQ", 1, 0) + TENSOR[:-8] + struct.pack("<Q", HUGE),
    "bytes that tensors share": START + struct.pack("<QQ", 3, 0) + TENSOR * 3,
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_no_claim_of_a_header_is_believed(header: bytes, tmp_path: Path) -> None:
    file = tmp_path / "hostile.gguf"
    file.write_bytes(header + bytes(64))
    with pytest.raises(ModelError, match=r"hostile\.gguf is (cut off or damaged|damaged|not opened), since its "):
        find_model(str(file))
