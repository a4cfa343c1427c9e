"""Builds an index folder: visible only when whole, and continued where an interrupted build of the same index stopped.

The index grows in a hidden folder beside its place. One process builds an index at a time.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from agent_r1_core import ConfigError, Passage, TaskError
from agent_r1_core.opening import check_links, open_to_write, read_json
from agent_r1_wiki_search.corpus import corpus_files, stream_corpus
from agent_r1_wiki_search.manifest import FILE, Manifest, fingerprints
from agent_r1_wiki_search.passages import Passages, Stored, write_passages

PASSAGES = "passages"
_PLAN, _LOCK = "plan.json", "lock"
_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG)


class Part(Protocol):
    """A way to search the passages of an index, to be built."""

    @property
    def name(self) -> str:
        """Of its folder in the index."""
        ...

    def parameters(self) -> dict[str, Any]:
        """What an interrupted build must have in common with this one.

        Raises:
            ConfigError: it cannot be built here.
        """
        ...

    def check(self, passages: int) -> str | None:
        """See whether so many passages are enough; returns what the user should know, if they are few.

        Raises:
            ConfigError: they are too few.
        """
        ...

    def build(self, passages: Passages, corpus: str, folder: Path) -> dict[str, Any]:
        """Build it in `folder`, or finish what is there; returns what the manifest says of it."""
        ...


@dataclass(frozen=True)
class Source:
    """Where the passages of an index come from."""

    origin: str
    """In words, for reports."""
    read: Callable[[], Iterable[tuple[str, Passage]]]
    """The passages with their places."""
    stamp: str | None = None
    """Changes with the corpus; None: read it to see whether it changed."""


def build_index(
    source: Source, parts: Sequence[Part], target: Path, say: Callable[[str], None] = lambda text: None
) -> Manifest:
    """Build an index of these parts in the folder `target`.

    Args:
        source: the passages.
        parts: how they will be searched.
        target: a folder that does not exist.
        say: called with what the user should know.

    Raises:
        ConfigError: the folder exists, an interrupted build there has other options, or a part cannot be built.
        TaskError: the corpus is malformed or empty, another process builds there, or the disk refuses.
    """
    if target.exists():
        raise ConfigError(f"{target} exists; name a folder that does not, or remove it first")
    growing = target.with_name(f".{target.name}.building")
    with _sole(growing, target), _telling(growing, say):
        plan = {part.name: part.parameters() for part in parts}
        begun = _state(growing)
        if begun.setdefault("plan", plan) != plan:
            raise ConfigError(
                f"an interrupted build of {target} has other options ({_difference(begun['plan'], plan)}); give the "
                f"same ones to continue it, or remove {growing} to begin again"
            )
        stored = _stored(source, growing, begun, say)
        try:
            warnings = [part.check(stored.passages) for part in parts]
        except ConfigError:
            shutil.rmtree(growing)  # nothing there can be continued
            raise
        for warning in filter(None, warnings):
            say(warning)
        passages = Passages(growing / PASSAGES)
        built = {part.name: part.build(passages, stored.hash, growing / part.name) for part in parts}
        del passages
        _publish(growing, target, source.origin, stored, built)
    return Manifest.read(target)


def _stored(source: Source, growing: Path, begun: dict[str, Any], say: Callable[[str], None]) -> Stored:
    """Write the passages, unless an interrupted build has written those of this very file."""
    stamped = begun.get("stamp") is not None and begun["stamp"] == source.stamp
    if stamped:
        stored = Stored(**begun["stored"])
    else:
        _write_state(growing, begun | {"stamp": None})
        stored = write_passages(source.read(), growing / PASSAGES)
        if not stored.passages:
            raise TaskError(f"{source.origin} holds no passage; give a corpus that is not empty")
        _write_state(growing, begun | {"stamp": source.stamp, "stored": asdict(stored)})
    if stored.repeated:
        say(f"{stored.repeated:,} repeated passages are left out; the first is {stored.first_repeated}")
    return stored


def _publish(growing: Path, target: Path, origin: str, stored: Stored, parts: dict[str, dict[str, Any]]) -> None:
    """Describe what was built, and give it its place."""
    manifest = Manifest(
        passages=stored.passages,
        corpus=origin,
        hash=stored.hash,
        repeated=stored.repeated,
        parts=parts,
        versions={name: version(name) for name in ("agent-r1", "pyarrow")},
        files={name: facts for name, facts in fingerprints(growing).items() if name not in (FILE, _PLAN, _LOCK)},
    )
    with (growing / FILE).open("w", encoding="utf-8") as file:
        file.write(json.dumps(manifest.model_dump(), indent=1, ensure_ascii=False))
        file.flush()
        os.fsync(file.fileno())
    os.rename(growing, target)
    for name in (_PLAN, _LOCK):
        (target / name).unlink()


@contextmanager
def _sole(growing: Path, target: Path) -> Iterator[None]:
    """Hold the folder's lock; leave no folder behind in which nothing is finished.

    Raises:
        TaskError: another process holds it, or the folder cannot be made.
    """
    try:
        growing.mkdir(parents=True, exist_ok=True)
        for folder, _, _ in os.walk(growing):
            check_links(folder)
        handle = open_to_write(growing / _LOCK, os.O_CREAT | os.O_RDWR)
    except OSError as error:
        raise TaskError(f"{growing} cannot be made ({error.strerror}); name another folder") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TaskError(f"another process builds {target}; wait for it, or name another folder") from None
        try:
            if target.exists():
                raise TaskError(f"another process has built {target} just now; use it, or name another folder")
            yield
        finally:
            if growing.exists() and not any((growing / PASSAGES).glob("*.arrow")):
                shutil.rmtree(growing, ignore_errors=True)
    finally:
        os.close(handle)


@contextmanager
def _telling(growing: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Say what is kept of a build that stops, and turn what a full disk causes into a sentence."""
    try:
        yield
    except ConfigError:
        raise
    except BaseException as error:
        kept = any((growing / PASSAGES).glob("*.arrow"))
        if kept:
            say(f"what is finished is kept in {growing}; the same command continues there")
        full = _is_full(error, growing)
        if full:
            raise TaskError(
                f"{growing} cannot be written ({full}); free space there and give the same command"
            ) from error
        raise


def _is_full(error: BaseException, folder: Path) -> str | None:
    """Why the disk refuses, if it does: libraries in other languages only say it in their messages."""
    if isinstance(error, OSError) and error.errno in _REFUSED:
        return str(error.strerror)
    reasons = (os.strerror(number) for number in _REFUSED)
    return next((reason for reason in reasons if reason.lower() in str(error).lower()), None)


def _state(growing: Path) -> dict[str, Any]:
    try:
        found = read_json(growing / _PLAN)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_state(growing: Path, state: dict[str, Any]) -> None:
    temporary = growing / f"{_PLAN}.tmp"
    temporary.write_text(json.dumps(state), encoding="utf-8")
    os.replace(temporary, growing / _PLAN)


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """What an interrupted build had, and what is asked for."""
    if set(before) != set(now):
        return f"{' and '.join(sorted(before))}, not {' and '.join(sorted(now))}"
    pairs = [
        f"{key} {before[name].get(key)}, not {now[name].get(key)}"
        for name in now
        for key in sorted({*before[name], *now[name]})
        if before[name].get(key) != now[name].get(key)
    ]
    return "; ".join(pairs)


def file_source(path: Path) -> Source:
    """A corpus file, or a folder of them.

    Raises:
        TaskError: there is none.
    """
    try:
        path.stat()
        stamps = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in corpus_files(str(path))]
    except OSError as error:
        raise TaskError(
            f"there is no corpus at {path} ({error.strerror}); give the path of an existing file"
        ) from error
    return Source(str(path), lambda: stream_corpus(str(path)), "\n".join(stamps))
