"""Shell: commands in a sandbox, one after the other, on files that stay."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from agent_r1_core.sandbox.backends import MIB, Backend, Bounds
from agent_r1_core.sandbox.box import Box, BoxEnded, EpisodeBox

_GUEST = Path(__file__).with_name("shell_guest.py")
_SLACK = 5.0
"""Seconds beyond a command's own in which its sandbox must answer."""


@dataclass(frozen=True)
class Outcome:
    """What a command printed, and how it ended."""

    text: str
    dropped: int
    """Bytes of output that are not in the text."""
    code: int | None
    """Its exit status; None: it took too long, and was killed."""

    def __str__(self) -> str:
        """As a terminal shows it, with what went wrong at the end."""
        lines = [self.text.rstrip("\n")] if self.text.strip() else []
        lines += [f"[{self.dropped} more bytes]"] if self.dropped else []
        lines += ["[killed: it took too long]"] if self.code is None else []
        lines += [f"[exit status {self.code}]"] if self.code else []
        return "\n".join(lines) or "(no output)"


@dataclass(frozen=True)
class File:
    content: bytes
    executable: bool = False


class Shell:
    """A sandbox with files; its first folder is where commands run, and processes end with their command. Any call may
    raise BoxEnded or BoxTimeout: the files are gone then, and the next call begins with none."""

    def __init__(self, backend: Backend, bounds: Bounds) -> None:
        program = _GUEST.read_text()
        self._box = EpisodeBox(lambda: Box(backend, program, bounds))
        self._most = 2 * bounds.disk * len(bounds.folders) * MIB

    def run(self, command: str, seconds: float, most: int, environment: Mapping[str, str] | None = None) -> Outcome:
        """Run a command with bash, or sh, for at most `seconds`; at most `most` bytes of its output are kept."""
        request = {"command": command, "seconds": seconds, "most": most, "environment": dict(environment or {})}
        answer = self._ask("run", seconds + _SLACK, **request)
        text, dropped, code = (answer.get(key) for key in ("text", "dropped", "code"))
        if type(text) is not str or type(dropped) is not int or type(code) not in (int, type(None)):
            raise self._lost("the sandbox sent no answer")
        return Outcome(text[:most], dropped, code)

    def put(self, folder: str, files: Mapping[str, File], seconds: float = 60.0) -> None:
        """Write new files below a folder, by their relative paths; a BoxEnded where they do not fit."""
        if not all(map(is_below, files)):
            raise self._lost(f"a path leads out of {folder}")
        data = {path: (base64.b64encode(file.content).decode(), file.executable) for path, file in files.items()}
        self._ask("put", seconds, files={f"{folder}/{path}": one for path, one in data.items()})

    def take(self, folder: str, seconds: float = 60.0) -> dict[str, File]:
        """The regular files below a folder, by their relative paths: plain data, which the guest may have made up."""
        try:
            files = self._ask("take", seconds, folder=folder)["files"].items()
            taken = {
                str(path): File(base64.b64decode(content), bool(executable)) for path, (content, executable) in files
            }
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise self._lost("the sandbox sent no files") from error
        return {path: file for path, file in taken.items() if is_below(path)}

    def close(self) -> None:
        self._box.close()

    def _ask(self, do: str, within: float, **request: Any) -> dict[str, Any]:
        data = json.dumps({"do": do, **request}).encode()
        try:
            answer = json.loads(self._box.exchange(data, within, self._most + (1 << 20)))
        except ValueError as error:
            raise self._lost("the sandbox sent no answer") from error
        if type(answer) is not dict or "error" in answer:
            raise self._lost(str(answer["error"] if type(answer) is dict else answer)[:300])
        return answer

    def _lost(self, why: str) -> BoxEnded:
        """The error of a call after which no file is left."""
        self._box.lose()
        return BoxEnded(why)


def is_below(path: str) -> bool:
    """Whether a relative path stays within its folder."""
    return bool(path) and "\0" not in path and not path.startswith("/") and ".." not in PurePosixPath(path).parts
