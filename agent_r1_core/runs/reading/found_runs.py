"""FoundRuns: the runs in given folders, however deep, each with an id; reads nothing outside of these folders.

Links are not followed, but for the folders that were given. What is inside a run is no other run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_r1_core.errors import RunError
from agent_r1_core.opening import check_inside
from agent_r1_core.runs.directory import is_run, lacks_marker

DEPTH = 6
"""Folders below a given one."""


class FoundRuns:
    """The runs in given folders; every look finds those that are there now."""

    def __init__(self, places: Sequence[Path | str]) -> None:
        """Look below folders, at runs, or at the run that holds a given file.

        Raises:
            RunError: a place is missing, or a file of no run.
        """
        self.folders = list(dict.fromkeys(_folder(Path(place)) for place in places))
        """The given folders, without links."""

    def all(self) -> dict[str, Path]:
        """The folders of the runs by id: a folder's name, or as many names of its path as tell it from the others."""
        paths = list(dict.fromkeys(path for folder in self.folders for path in _below(folder, DEPTH)))
        # No browser writes a byte that is not UTF-8 in an address.
        ids = (os.fsencode(name).decode("utf-8", "backslashreplace") for name in _ids(paths))
        return dict(sorted(zip(ids, paths, strict=True)))

    def path(self, name: str) -> Path:
        """The folder of a run; a RunError where there is none."""
        runs = self.all()
        if name in runs:
            return runs[name]
        wanted = tuple(name.split("/"))
        longer = [run for run, path in runs.items() if path.parts[-len(wanted) :] == wanted]
        if len(longer) == 1:  # a run of the same name came or went
            return runs[longer[0]]
        if longer:
            raise RunError(f"several runs are called {name!r}; say which: {', '.join(longer)}")
        raise RunError(f"there is no run {name!r} in {', '.join(map(str, self.folders))}; look at the list of runs")

    def check_inside(self, path: Path) -> Path:
        """Return `path`; NotOpened where a link leads out of the folders."""
        check_inside(path, *self.folders)
        return path


def _folder(place: Path) -> Path:
    real = Path(os.path.realpath(place))
    if real.is_dir():
        return real
    if real.exists():
        holder = next((parent for parent in real.parents if is_run(parent)), None)
        if holder is not None:
            return holder
        raise RunError(f"{place} is a file of no run; give a run or a folder with runs")
    raise RunError(f"there is no {place}; give a run or a folder with runs, such as the run.dir of a training")


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """The runs in a folder, itself included, and those whose `run.json` is damaged."""
    if is_run(folder) or lacks_marker(folder):
        yield folder
        return
    if depth == 0:
        return
    try:
        with os.scandir(folder) as entries:
            inside = sorted(entry.name for entry in entries if _counts(entry))
    except OSError:  # not readable, or gone by now
        return
    for name in inside:
        yield from _below(folder / name, depth - 1)


def _counts(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder to look into: no link, and not hidden, as runs that are being replaced are."""
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _ids(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that are different."""
    lengths = [1] * len(paths)
    while True:
        ids = ["/".join(path.parts[-length:]) for path, length in zip(paths, lengths, strict=True)]
        times = Counter(ids)
        if len(times) == len(ids):
            return ids
        lengths = [length + (times[name] > 1) for name, length in zip(ids, lengths, strict=True)]
