"""An evaluation on disk: `<name>.json`, the scores and what they rest on, `<name>.jsonl`, one line per episode, and
for each set a file of trajectories, `<name>.parquet` or `<name>.<set>.parquet`, with its first episodes.

The JSON names the lines' file with its checksum, so that two files of different evaluations are never read as one. The
other files are written first: a JSON file that exists is whole. `EvaluationTasks` are the ids of the run's evaluated
and held-out tasks, in a file of their own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from agent_r1_core.errors import RunError
from agent_r1_core.opening import DOCUMENT, LINES, parse_json, read_bytes
from agent_r1_core.runs.files import remove, write_json, write_text

_KEY = "episodes"
_TRAJECTORIES = "trajectories"


def write_evaluation(
    path: Path,
    result: Mapping[str, Any],
    episodes: Sequence[Mapping[str, Any]] = (),
    trajectories: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write an evaluation, whole or not at all; an existing one is replaced.

    Args:
        path: the file of the result, `<name>.json`.
        result: JSON-serialisable.
        episodes: one JSON-serialisable object per episode; without any, the result alone is written.
        trajectories: by set, the names of the files beside it that hold trajectories; they are there already.

    Raises:
        RunError: the file system refuses (full, read-only, gone).
    """
    lines, about = path.with_suffix(".jsonl"), None
    replaced = _named(path) - set(trajectories.values())
    if episodes:
        text = "".join(f"{json.dumps(one, ensure_ascii=False, default=str)}\n" for one in episodes)
        content = text.encode("utf-8", "backslashreplace")  # lone surrogates become JSON escapes
        write_text(lines, content.decode("utf-8"))
        about = {"file": lines.name, "n": len(episodes), "sha256": hashlib.sha256(content).hexdigest()}
    kept = {_TRAJECTORIES: dict(trajectories)} if trajectories else {}
    write_json(path, {**result, _KEY: about, **kept})
    # What is left is of the evaluation that this one replaces.
    for file in (*([lines] if about is None else []), *(path.with_name(name) for name in replaced)):
        if file.exists():
            remove(file)


def remove_evaluation(path: Path) -> None:
    """Delete an evaluation with its episodes; raises RunError if the file system refuses."""
    names = {path.with_suffix(".jsonl").name, *_named(path)}
    remove(path)
    for name in names:
        if path.with_name(name).exists():
            remove(path.with_name(name))


def trajectory_files(path: Path, result: Mapping[str, Any]) -> dict[str, str]:
    """By set, the names of the files with an evaluation's trajectories, which lie beside it; empty: it keeps none.

    Raises:
        RunError: the result names something else.
    """
    files = result.get(_TRAJECTORIES, {})
    if not isinstance(files, dict) or not all(_is_name(name, ".parquet") for name in files.values()):
        raise damaged_file(path)
    return files


def _named(path: Path) -> set[str]:
    """The trajectory files of the evaluation that is there, if there is a whole one."""
    try:
        return set(trajectory_files(path, read_evaluation(path)).values())
    except RunError:
        return set()


def _is_name(name: Any, suffix: str) -> bool:
    """Whether this can name a file beside another one."""
    return isinstance(name, str) and name.endswith(suffix) and Path(name).name == name and name.isprintable()


def read_evaluation(path: Path) -> dict[str, Any]:
    """The result of an evaluation, without its episodes; a RunError where its file is missing or damaged."""
    try:
        result = parse_json(_read(path, DOCUMENT))
    except ValueError as error:
        raise damaged_file(path) from error
    if not isinstance(result, dict) or not isinstance(result.get("step", ""), int | None):
        raise damaged_file(path)
    return result


def episodes_file(path: Path, result: Mapping[str, Any]) -> Path:
    """Where the episodes of an evaluation are: beside it.

    Raises:
        RunError: it has none, or names something else.
    """
    about = result.get(_KEY)
    if about is None:
        raise RunError(f"{path} keeps no episodes, so it cannot be scored again; evaluate again with this agent-r1")
    if not isinstance(about, dict) or not _is_name(about.get("file"), ".jsonl"):
        raise damaged_file(path)
    return path.with_name(about["file"])


def read_episodes(path: Path, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The episodes of an evaluation.

    Raises:
        RunError: it has none, or their file is missing, damaged or another evaluation's.
    """
    lines = episodes_file(path, result)
    content = _read(lines, LINES, f" ({path.name} names it as the file of its episodes)")
    if hashlib.sha256(content).hexdigest() != result[_KEY].get("sha256"):
        raise RunError(
            f"{lines} does not hold the episodes that {path.name} was computed from: its checksum differs; copy both "
            f"files of an evaluation together, or restore them"
        )
    try:
        # Not splitlines: a text may hold one of the other characters that it takes for the end of a line.
        episodes = [parse_json(line) for line in content.split(b"\n") if line]
    except ValueError as error:
        raise damaged_file(lines) from error
    if not all(isinstance(episode, dict) for episode in episodes):
        raise damaged_file(lines)
    return episodes


def damaged_file(path: Path) -> RunError:
    """The error of a file that is not what agent-r1 wrote."""
    return RunError(f"{path} is damaged: it is not what agent-r1 wrote; restore it from a copy, or delete it")


def _read(path: Path, most: int, why: str = "") -> bytes:
    try:
        return read_bytes(path, most)
    except FileNotFoundError as error:
        raise RunError(f"there is no file {path}{why}; copy both files of an evaluation together") from error
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}); make it readable and try again") from error


@dataclass(frozen=True)
class EvaluationTasks:
    """Ids of tasks, and digests of what they ask, kept in the run's `evaluation_tasks.json`."""

    sets: Mapping[str, tuple[str, ...]]
    """The tasks of each evaluation set, by its name."""
    held_out: tuple[str, ...] | None = None
    """All tasks that are held out of training; None if no evaluation set is taken from the training tasks."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Of each set, that of training (`train`) included, what its tasks ask (`tasks_digest`)."""

    def changed_in(self, now: EvaluationTasks) -> list[str]:
        """The sets whose tasks ask something else now, under the same ids."""
        return [
            name
            for name, digest in self.digests.items()
            if now.digests.get(name, digest) != digest and now.sets.get(name) == self.sets.get(name)
        ]

    def basis(self, greedy: bool) -> str:
        """Equal for evaluations that can be compared: of the same tasks, which are decoded alike."""
        asked = {name: digest for name, digest in self.digests.items() if name in self.sets}
        return hashlib.sha256(json.dumps([greedy, asked], sort_keys=True).encode()).hexdigest()

    def behind(self, metric: str) -> frozenset[str]:
        """The tasks that a metric scores: one set's for `eval/<set>/...`, every set's for `eval/...`."""
        name = metric.partition("/")[2].partition("/")[0]
        sets = [self.sets[name]] if name in self.sets else self.sets.values()
        return frozenset(task for ids in sets for task in ids)

    def to_json(self) -> dict[str, Any]:
        return {"schema": 1, "sets": dict(self.sets), "held_out": self.held_out, "digests": dict(self.digests)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvaluationTasks:
        """What `to_json` wrote; raises KeyError or ValueError if it is malformed."""
        known = {name: data[name] for name in ("sets", "held_out")}
        return _TASKS.validate_python(known | {"digests": data.get("digests", {})})


_TASKS = TypeAdapter(EvaluationTasks)
