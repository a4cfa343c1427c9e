"""Store: the folder of a matrix, which remembers every finished cell.

    matrix.json            the scale, the overrides, and each row's resolved configuration
    cells/<cell>.json      a finished cell: its commands, the file of its result, the seconds it took
    runs/<cell>/           its run, with the result in evaluations/
    logs/<cell>.log        what its commands said
    <table>.md .json .png  the report

A cell is finished when its record is there, which is written last. Until then its run is resumed, or its evaluation
repeated. The tables of a scale may share a folder: a row that both have is run once.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.opening import check_links, read_json
from agent_r1_core.runs.files import clean_leftovers, naming, write_json
from agent_r1_core.runs.lock import FileLock
from agent_r1_paper.matrix import Cell, Matrix
from agent_r1_paper.tables import Row

KIND = "agent-r1 matrix"
_PLACES = ("run", "sources")
"""Sections of a configuration that do not say what a row is."""


@dataclass(frozen=True)
class Record:
    """A finished cell."""

    cell: str
    commands: list[list[str]]
    evaluation: str
    """The file of its result; relative to the folder of the matrix where it lies inside."""
    seconds: float
    """How long its last attempt took."""


class Store:
    """The folder of a matrix."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def runs(self) -> Path:
        """Where the runs of the cells are."""
        return self.path / "runs"

    def log(self, cell: Cell) -> Path:
        """The file for what a cell's commands say."""
        return self.path / "logs" / f"{cell.name}.log"

    def open(self, matrix: Matrix, resume: bool) -> None:
        """Lay out the folder, or check that it holds this matrix.

        Raises:
            ConfigError, PluginError: a recipe or an override is wrong, or this machine cannot run a component.
            RunError: the folder holds something else, or a recipe has changed since the matrix began; or it exists and
                `resume` is False.
        """
        for config in matrix.configs.values():
            config.check_available()
        configs = {name: _essence(config.dump()) for name, config in matrix.configs.items()}
        known: dict[str, Any] = {}
        if self._marker.is_file() or (self.path.is_dir() and any(self.path.iterdir())):
            known = self._check(matrix, configs, resume)
        elif resume:
            raise RunError(f"{self.path} holds no matrix yet; leave out --resume to begin one there")
        with naming(self.path):
            for name in ("cells", "runs", "logs"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
            clean_leftovers(self.path / "cells")
        content = {"scale": matrix.scale.name, "overrides": list(matrix.overrides), "rows": {**known, **configs}}
        write_json(self._marker, {"kind": KIND, "schema": 1, **content})

    def record(self, cell: Cell) -> Record | None:
        """The record of a cell; None: it has not finished.

        Raises:
            RunError: the record is damaged.
        """
        path = self._record(cell)
        if not path.is_file():
            return None
        found = _read(path)
        try:
            return Record(**{name: found[name] for name in Record.__dataclass_fields__})
        except KeyError as error:
            raise RunError(f"{path} is damaged: it has no {error}; delete it to run the cell again") from error

    def seeds(self, row: Row) -> list[int]:
        """The seeds of a row that have finished, whichever matrix asked for them."""
        found = (re.fullmatch(rf"{re.escape(row.name)}-(\d+)", path.stem) for path in self.path.glob("cells/*.json"))
        return sorted(int(match[1]) for match in found if match)

    def finish(self, cell: Cell, commands: list[list[str]], evaluation: Path, seconds: float) -> None:
        """Record that a cell has finished."""
        inside = evaluation.resolve().is_relative_to(self.path.resolve())
        file = evaluation.resolve().relative_to(self.path.resolve()) if inside else evaluation.resolve()
        record = Record(cell.name, commands, str(file), round(seconds, 1))
        write_json(self._record(cell), {"schema": 1, **asdict(record)})

    def result(self, record: Record) -> ResultFile:
        """A cell's result.

        Raises:
            RunError: the file is gone or damaged, or another run's.
        """
        file = self.path / record.evaluation
        again = f"to run the cell again, delete {self.path / 'cells' / record.cell}.json"
        if not file.is_file():
            raise RunError(f"{file}, the result of {record.cell}, is gone; restore it; {again}")
        try:
            found = ResultFile.open(file)
        except RunError as error:
            raise RunError(f"{error}; {again}") from error
        asked, own = found.origin and Path(found.origin[0]), self.runs / record.cell
        if asked and asked.name != own.name and file.is_relative_to(own):
            raise RunError(f"{file} is an evaluation of the run {asked}, not of {own.name}; {again}")
        return found

    @contextmanager
    def claimed(self, cell: Cell) -> Iterator[bool]:
        """Keep a cell from other processes; False: another one has it."""
        with naming(self.path):
            lock = FileLock(self.path / "cells" / f".{cell.name}.lock", writing=True)
        try:
            try:
                lock.take(fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            lock.release()

    @property
    def _marker(self) -> Path:
        return self.path / "matrix.json"

    def _record(self, cell: Cell) -> Path:
        return self.path / "cells" / f"{cell.name}.json"

    def _check(self, matrix: Matrix, configs: Mapping[str, Any], resume: bool) -> dict[str, Any]:
        """The configurations of the rows that the folder knows.

        Raises:
            RunError: see `open`.
        """
        elsewhere = "name another folder with --dir"
        found = _read(self._marker) if self._marker.is_file() else {}
        if found.get("kind") != KIND:
            raise RunError(f"{self.path} exists and is no folder of agent-r1 reproduce; {elsewhere}")
        if not resume:
            raise RunError(f"{self.path} exists already; continue it with --resume, or {elsewhere}")
        check_links(self.path)
        asked = {"scale": matrix.scale.name, "overrides": list(matrix.overrides)}
        for key, value in asked.items():
            if _unordered(found.get(key)) != _unordered(value):
                raise RunError(
                    f"{self.path} holds a matrix with {key} {found.get(key)}, not {value}; give what it has, or "
                    f"{elsewhere}"
                )
        known: dict[str, Any] = found.get("rows", {})
        for name, config in configs.items():
            change = _difference(known[name], config) if name in known else None
            if change is not None:
                recipe = next(matrix.recipe(row) for row in matrix.table.rows if row.name == name)
                raise RunError(
                    f"the recipe {recipe} has changed since {self.path} began ({name}: {change}), so its cells could "
                    f"not be compared; put it back, or {elsewhere}"
                )
        return known


def _unordered(value: Any) -> Any:
    """A list in an order of its own: that of overrides says nothing, since a recipe takes no key twice."""
    return sorted(map(str, value)) if isinstance(value, list) else value


def _difference(old: Any, new: Any, key: str = "") -> str | None:
    """The first key in which two configurations differ, with both values; None: they are equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = ((name, old.get(name), new.get(name)) for name in (old | new))
        found = (_difference(was, is_, f"{key}.{name}" if key else name) for name, was, is_ in pairs)
        return next((text for text in found if text is not None), None)
    return None if old == new else f"{key} was {old} and is {new}"


def _essence(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration says about a row, as JSON gives it back."""
    essence: dict[str, Any] = json.loads(json.dumps({k: v for k, v in config.items() if k not in _PLACES}, default=str))
    return essence


def _read(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}); restore it from a copy, or delete it") from error
    if not isinstance(found, dict):
        raise RunError(f"{path} is damaged: it holds no JSON object; restore it from a copy, or delete it")
    return found
