"""The vectors of all passages on disk, in half precision, mapped into memory: `passages x dimension x 2` bytes.

They are written in blocks, and an interrupted job goes on after the last whole one.
"""

from __future__ import annotations

import json
import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agent_r1_core import working
from agent_r1_core.opening import check_regular, open_to_write, read_json
from agent_r1_wiki_search.encoder import Encoder
from agent_r1_wiki_search.passages import Passages

if TYPE_CHECKING:
    import numpy

FILE = "embeddings.f16"
_STATE = "encoded.json"
_BLOCK = 2048


def write_embeddings(passages: Passages, encoder: Encoder, corpus: str, folder: Path) -> bool:
    """Encode the passages that an interrupted call has not; its work counts if the corpus has the same hash.

    Returns whether there were any. The whole file is reserved before the first passage is encoded, so that a full disk
    shows at once.

    Raises:
        OSError: the file system refuses.
    """
    import numpy

    folder.mkdir(exist_ok=True)
    row = 2 * encoder.dimension
    done = before = _done(folder, corpus)
    handle = open_to_write(folder / FILE, os.O_RDWR | os.O_CREAT)
    try:
        try:
            os.posix_fallocate(handle, 0, len(passages) * row)
        except OSError:
            os.ftruncate(handle, done * row)
            raise
        os.ftruncate(handle, len(passages) * row)
        coming = passages.since(done)
        with working("encoding", len(passages), done=done, unit="passages") as work:
            while block := list(islice(coming, _BLOCK)):
                vectors = encoder.passages([f"{passage.title}\n{passage.text}" for passage in block])
                os.pwrite(handle, vectors.astype(numpy.float16).tobytes(), done * row)
                os.fsync(handle)
                done += len(block)
                _set_done(folder, corpus, done)
                work.advance(len(block))
    finally:
        os.close(handle)
    return done > before


def read_embeddings(folder: Path, dimension: int) -> numpy.ndarray:
    """`[passages, dimension]`, float16, mapped into memory."""
    import numpy

    check_regular(folder / FILE)
    return numpy.memmap(folder / FILE, numpy.float16, "r").reshape(-1, dimension)


def _done(folder: Path, corpus: str) -> int:
    try:
        state = read_json(folder / _STATE)
    except (OSError, ValueError):
        return 0
    return int(state["passages"]) if state["corpus"] == corpus else 0


def _set_done(folder: Path, corpus: str, done: int) -> None:
    temporary = folder / f"{_STATE}.tmp"
    temporary.write_text(json.dumps({"corpus": corpus, "passages": done}))
    os.replace(temporary, folder / _STATE)
