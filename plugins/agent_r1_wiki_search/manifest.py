"""The manifest of an index folder: what it was built from and with, and what its files must look like.

A file of more than 16 MiB is recognised by its size and by samples of it, since reading a whole index would take
minutes: damage between the samples stays unseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from agent_r1_core import TaskError
from agent_r1_core.errors import first_line
from agent_r1_core.opening import open_to_read, read_json

FILE = "manifest.json"
FORMAT = 1
_BUILD = "agent-r1 wiki build"
_WHOLE = 1 << 24
_SAMPLES, _SAMPLE = 64, 1 << 16


class Manifest(BaseModel):
    """Facts about an index."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = FORMAT
    passages: int
    corpus: str
    """Where the passages came from."""
    hash: str
    """Of the passages."""
    repeated: int
    """Passages of the corpus that were left out since they stood before."""
    parts: dict[str, dict[str, Any]]
    """`tantivy` and `dense`, whichever there is: the parameters with which it was built."""
    versions: dict[str, str]
    """Of the packages that built it."""
    files: dict[str, tuple[int, str]]
    """Bytes and fingerprint of each file."""

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of an index, all of whose files are there and look as they should.

        Raises:
            TaskError: there is no index, another version of agent-r1 built it, or a file is damaged.
        """
        file = folder / FILE
        try:
            content = read_json(file)
            if isinstance(content, dict) and content.get("format", FORMAT) != FORMAT:
                raise TaskError(f"the index {folder} has format {content['format']}, not {FORMAT}; build it again")
            manifest = cls.model_validate(content)
        except FileNotFoundError:
            raise TaskError(f"there is no index in {folder} (no {FILE}); build one with `{_BUILD}`") from None
        except NotADirectoryError:
            raise TaskError(
                f"{folder} is a file, not an index folder; if it is a corpus, build an index of it with "
                f"`{_BUILD} {folder} INDEX`, and give that"
            ) from None
        except (OSError, ValueError, ValidationError) as error:
            raise TaskError(f"{file} cannot be read ({first_line(error)}); build the index again") from error
        manifest._check(folder)
        return manifest

    def _check(self, folder: Path) -> None:
        for name, (size, expected) in self.files.items():
            file = folder / name
            if not file.is_file():
                problem = "is missing"
            elif file.stat().st_size != size:
                problem = f"has {file.stat().st_size:,} bytes, not {size:,}"
            elif fingerprint(file) != expected:
                problem = "was changed"
            else:
                continue
            raise TaskError(f"the index {folder} is damaged: {name} {problem}; build it again, or copy it again")


def fingerprints(folder: Path) -> dict[str, tuple[int, str]]:
    """Bytes and fingerprint of each file of a folder, by its path in the folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): (file.stat().st_size, fingerprint(file)) for file in files}


def fingerprint(file: Path) -> str:
    """The hash of a small file, or of samples of a large one."""
    digest = blake2b(digest_size=16)
    for block in _samples(file):
        digest.update(block)
    return digest.hexdigest()


def _samples(file: Path) -> Iterator[bytes]:
    size = file.stat().st_size
    with open_to_read(file) as opened:
        if size <= _WHOLE:
            yield opened.read()
            return
        for number in range(_SAMPLES):
            opened.seek((size - _SAMPLE) * number // (_SAMPLES - 1))
            yield opened.read(_SAMPLE)
