"""Reads and checks the plugins of other distributions in processes of their own, so that none can harm a command.

What a plugin offers is remembered until one of its files changes, or a file is added to a folder of its package or
taken away; its module is not imported here at all, only the components that a recipe names. This keeps accidents out,
not attackers: an installed distribution may run code whenever Python starts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agent_r1_core.folders import cache_dir
from agent_r1_core.hookspecs import PLUGIN_API
from agent_r1_core.opening import read_json
from agent_r1_core.plugins.reading import answer_of, record_of
from agent_r1_core.plugins.records import Findings, PluginRecord, PluginStatus
from agent_r1_core.plugins.sources import Candidate

SECONDS = 30.0
"""Time to import the plugins that are not remembered; they are imported at the same time."""
_AGAIN = "`agent-r1 plugins doctor` tries it again"

Stamps = dict[str, list[int]]
"""Files and folders with the time of their last change (ns) and their size."""


def read_elsewhere(candidates: Sequence[Candidate], anew: bool = False) -> dict[Candidate, PluginRecord]:
    """What each plugin offers; `anew` forgets what is remembered."""
    places = {candidate: files_of(candidate.value) for candidate in candidates}
    records = {} if anew else {item: found for item, files in places.items() if (found := _remembered(item, files))}
    unread = [candidate for candidate in candidates if candidate not in records]
    for candidate, answer in zip(unread, _answers(unread, check=False), strict=True):
        if isinstance(answer, str):
            record = candidate.record(PluginStatus.FAILED, f"importing {candidate.value} {answer}; {_AGAIN}")
        else:
            record = record_of(candidate, answer)
        if not record.raised:
            _remember(candidate, record, places[candidate], [] if isinstance(answer, str) else answer["files"])
        records[candidate] = record
    return records


def check_elsewhere(plugins: Sequence[PluginRecord]) -> list[Findings]:
    """What is wrong with the components of each plugin."""
    return [
        Findings([f"importing its components {answer}"], []) if isinstance(answer, str) else Findings(**answer)
        for answer in _answers(plugins, check=True)
    ]


def _answers(plugins: Sequence[Candidate] | Sequence[PluginRecord], check: bool) -> list[dict[str, Any] | str]:
    """The answer of a process for each plugin, or what became of the process."""
    with TemporaryDirectory(prefix="agent-r1-plugins-") as folder:
        started: list[_Reader] = []
        try:
            for index, plugin in enumerate(plugins):
                facts = {key: getattr(plugin, key) for key in ("name", "distribution", "version", "value")}
                question = {**facts, "check": check, "seconds": 2 * SECONDS}
                started.append(_Reader(Path(folder, f"{index}.json"), question))
            stop = time.monotonic() + SECONDS
            return [reader.answer(stop) for reader in started]
        finally:
            for reader in started:
                reader.kill()


class _Reader:
    def __init__(self, file: Path, question: dict[str, Any]) -> None:
        self._file = file
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agent_r1_core.plugins.reader", str(file), json.dumps(question)],
            stdin=subprocess.DEVNULL,
            stdout=2,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )

    def answer(self, stop: float) -> dict[str, Any] | str:
        """Wait until the time `stop`; returns the answer, or what became of the process."""
        try:
            code = self._process.wait(max(0.0, stop - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            return f"did not end within {SECONDS:g} seconds"
        try:
            return dict(read_json(self._file))
        except (OSError, ValueError):
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            return f"ended the process that did it, which {how}"

    def kill(self) -> None:
        """End the process and those that it started, if it still runs."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def files_of(value: str) -> list[str]:
    """The files that importing a plugin's module runs first, its packages' and its own, found without importing any.

    Empty if they are not found; such a plugin is read every time.
    """
    files: list[str] = []
    places: Any = None
    parts = value.partition(":")[0].split(".")
    for end in range(1, len(parts) + 1):
        spec = _spec(".".join(parts[:end]), places)
        if spec is None:
            return []
        files += [spec.origin] if spec.has_location and spec.origin else []
        places = spec.submodule_search_locations
    return files


def _spec(module: str, places: Any) -> ModuleSpec | None:
    """As `importlib.util.find_spec`, which would import the packages above the module."""
    try:
        specs = (finder.find_spec(module, places) for finder in sys.meta_path)
        return next((spec for spec in specs if spec is not None), None)
    except (ImportError, AttributeError, KeyError, ValueError):
        return None


def _remembered(candidate: Candidate, files: Sequence[str]) -> PluginRecord | None:
    try:
        saved = read_json(_memory(candidate))
        stamps = _stamps([*files, *saved["stamps"]])
        if files and saved["of"] == _facts(candidate) and saved["stamps"] == stamps:
            return record_of(candidate, saved["reading"])
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        pass
    return None


def _remember(candidate: Candidate, record: PluginRecord, own: Sequence[str], others: Sequence[str]) -> None:
    """Write what was read; a cache that cannot be written only costs time."""
    with contextlib.suppress(OSError, RuntimeError):
        path = _memory(candidate)
        temporary = path.with_suffix(f".{os.getpid()}")
        stamps = _stamps([*own, *others])
        path.parent.mkdir(parents=True, exist_ok=True)
        saved = {"of": _facts(candidate), "stamps": stamps, "reading": answer_of(record)}
        temporary.write_text(json.dumps(saved), encoding="utf-8")
        os.replace(temporary, path)


def _memory(candidate: Candidate) -> Path:
    name = "\0".join((candidate.distribution, candidate.name, candidate.value))
    return cache_dir() / "plugins" / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"


def _facts(candidate: Candidate) -> list[Any]:
    """What a reading depends on besides the plugin's files."""
    return [candidate.version, PLUGIN_API, sys.version]


def _stamps(files: Sequence[str]) -> Stamps:
    stats = {file: os.stat(file) for file in files}
    return {file: [stat.st_mtime_ns, stat.st_size] for file, stat in stats.items()}
