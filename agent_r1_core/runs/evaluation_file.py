"""An evaluation on disk: `<name>.json`, the scores and what they rest on, and `<name>.jsonl`, one line per episode.

The JSON names the lines' file with its checksum, so that two files of different evaluations are never read as one. The
lines are written first: a JSON file that exists is whole. An evaluation of versions before has no lines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_core.runs.files import remove, write_json, write_text

_KEY = "episodes"


def write_evaluation(path: Path, result: Mapping[str, Any], episodes: Sequence[Mapping[str, Any]] = ()) -> None:
    """Write an evaluation, whole or not at all; an existing one is replaced.

    Args:
        path: the file of the result, `<name>.json`.
        result: JSON-serialisable.
        episodes: one JSON-serialisable object per episode; without any, the result alone is written.

    Raises:
        RunError: the file system refuses (full, read-only, gone).
    """
    lines, about = path.with_suffix(".jsonl"), None
    if episodes:
        text = "".join(f"{json.dumps(one, ensure_ascii=False, default=str)}\n" for one in episodes)
        content = text.encode("utf-8", "backslashreplace")  # lone surrogates become JSON escapes
        write_text(lines, content.decode("utf-8"))
        about = {"file": lines.name, "n": len(episodes), "sha256": hashlib.sha256(content).hexdigest()}
    write_json(path, {**result, _KEY: about})
    if about is None and lines.exists():
        remove(lines)  # of the evaluation that this one replaces


def remove_evaluation(path: Path) -> None:
    """Delete an evaluation with its episodes.

    Raises:
        RunError: the file system refuses.
    """
    remove(path)
    lines = path.with_suffix(".jsonl")
    if lines.exists():
        remove(lines)


def read_evaluation(path: Path) -> dict[str, Any]:
    """The result of an evaluation, without its episodes.

    Raises:
        RunError: the file is missing or damaged.
    """
    try:
        result = json.loads(_read(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise damaged_file(path) from error
    if not isinstance(result, dict) or not isinstance(result.get("step", ""), int | None):
        raise damaged_file(path)
    return result


def read_episodes(path: Path, result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The episodes of an evaluation.

    Args:
        path: the file of the result.
        result: what `read_evaluation` read from it.

    Raises:
        RunError: it has none, or their file is missing, damaged or another evaluation's.
    """
    about = result.get(_KEY)
    if about is None:
        raise RunError(f"{path} keeps no episodes, so it cannot be scored again; evaluate again with this agent-r1")
    if (
        not isinstance(about, dict)
        or not isinstance(about.get("file"), str)
        or Path(about["file"]).name != about["file"]
    ):
        raise damaged_file(path)
    lines = path.with_name(about["file"])
    content = _read(lines, f" ({path.name} names it as the file of its episodes)")
    if hashlib.sha256(content).hexdigest() != about.get("sha256"):
        raise RunError(
            f"{lines} does not hold the episodes that {path.name} was computed from: its checksum differs; copy both "
            f"files of an evaluation together, or restore them"
        )
    try:
        # Not splitlines: a text may hold one of the other characters that it takes for the end of a line.
        episodes = [json.loads(line) for line in content.decode("utf-8").split("\n") if line]
    except (ValueError, RecursionError) as error:
        raise damaged_file(lines) from error
    if not all(isinstance(episode, dict) for episode in episodes):
        raise damaged_file(lines)
    return episodes


def damaged_file(path: Path) -> RunError:
    """The error of a file that is not what agent-r1 wrote."""
    return RunError(f"{path} is damaged: it is not what agent-r1 wrote; restore it from a copy, or delete it")


def _read(path: Path, why: str = "") -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise RunError(f"there is no file {path}{why}; copy both files of an evaluation together") from error
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}); make it readable and try again") from error
