"""Finds plugins in the entry points of installed distributions and in local Python files; imports nothing."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from agent_r1_core.errors import ConfigError
from agent_r1_core.hookspecs import PROJECT
from agent_r1_core.opening import DOCUMENT, read_bytes
from agent_r1_core.plugins.records import PluginRecord, PluginStatus

OWN = "agent-r1"
"""The distribution of the built-in plugins."""


@dataclass(frozen=True, order=True)
class Candidate:
    """A plugin that may be loaded; sorts by name, distribution and value, so a local file comes before others."""

    name: str
    distribution: str
    """Empty: a local file."""
    value: str
    version: str | None = field(default=None, compare=False)
    entry_point: metadata.EntryPoint | None = field(default=None, compare=False)
    content: bytes = field(default=b"", compare=False, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether it is a file that the user, a recipe or a run names."""
        return self.entry_point is None

    @property
    def is_built_in(self) -> bool:
        return self.distribution == OWN

    @property
    def origin(self) -> str:
        """Where it comes from, for people: `agent-r1 0.1.0`, or a path."""
        return f"{self.distribution} {self.version}" if self.distribution else self.value

    @property
    def file_hash(self) -> str | None:
        return hashlib.sha256(self.content).hexdigest() if self.is_local else None

    def load(self) -> Any:
        """Import the plugin module; raises whatever the module raises."""
        return self.entry_point.load() if self.entry_point else _import_local(Path(self.value), self.content)

    def record(self, status: PluginStatus, reason: str = "", **read: Any) -> PluginRecord:
        """What became of it; `read` is what was read of its module, by the fields of the record."""
        return PluginRecord(
            name=self.name,
            distribution=self.distribution or None,
            version=self.version,
            value=self.value,
            status=status,
            reason=reason,
            file_hash=self.file_hash,
            built_in=self.is_built_in,
            **read,
        )


def candidates(local_files: Sequence[Path | str]) -> list[Candidate]:
    """Every plugin that can be found, sorted, without exact repeats.

    Raises:
        ConfigError: a local file does not exist, cannot be read, or is not a Python file.
    """
    entries = metadata.entry_points(group=PROJECT)
    distributions = {entry.dist for entry in entries}  # name and version each read all of a distribution's metadata
    origins = {one: (one.name or "unknown", one.version) if one else ("unknown", None) for one in distributions}
    installed = {
        Candidate(entry.name, name, entry.value, version, entry)
        for entry in entries
        for name, version in (origins[entry.dist],)
    }
    return sorted(installed | {_from_file(Path(path)) for path in local_files})


def _from_file(path: Path) -> Candidate:
    path = Path(os.path.expanduser(path))
    if path.suffix != ".py" or not path.is_file():
        what = "is not a Python file" if path.exists() else "does not exist"
        raise ConfigError(f"plugin file {path} {what}; give the path of a .py file")
    try:
        return Candidate(path.stem, "", str(path.resolve()), content=read_bytes(path, DOCUMENT))
    except OSError as error:
        raise ConfigError(f"plugin file {path} cannot be read ({error.strerror}); check its permissions") from None


class _ContentLoader(SourceFileLoader):
    """Runs the content whose hash was compared; a compiled file in `__pycache__` might hold something else."""

    def __init__(self, name: str, path: Path, content: bytes) -> None:
        super().__init__(name, str(path))
        self.content = content

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.content, self.path, "exec", dont_inherit=True)


def imported_content(module: Any) -> bytes | None:
    """The content that `import_content` imported as this module; None for every other module."""
    loader = getattr(module, "__loader__", None)
    return loader.content if isinstance(loader, _ContentLoader) else None


def _import_local(path: Path, content: bytes) -> Any:
    """Import a file under a unique name, so that it hides no module and no other file of the same name."""
    digest = hashlib.sha256(str(path).encode() + b"\0" + content).hexdigest()[:12]
    name = f"agent_r1_local_{digest}_{path.stem}"
    return sys.modules[name] if name in sys.modules else import_content(name, path, content)


def import_content(name: str, path: Path, content: bytes) -> Any:
    """Import the content of the file at `path` as the module `name`; raises whatever it raises."""
    loader = _ContentLoader(name, path, content)
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise ImportError(f"Python cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
