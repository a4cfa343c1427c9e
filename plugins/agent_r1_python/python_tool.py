"""The tool `python`: one interpreter for each episode, in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field

from agent_r1_core import ToolArguments
from agent_r1_core.sandbox import Backend, Bounds, Box, BoxEnded, EpisodeBox
from agent_r1_python.sandboxed import SandboxConfig, SandboxedTool

_GUEST = Path(__file__).with_name("python_guest.py").read_text()
_START = 60.0
"""Seconds that an interpreter may take to start."""


class PythonConfig(SandboxConfig):
    """Options of `python`."""

    unsafe: bool = False
    """Without a sandbox: the model's code runs as you, and can read and change what you can."""


class Python(SandboxedTool):
    """Runs Python code: returns what it prints and its last expression's value. Variables stay for later calls."""

    Config = PythonConfig
    lost = "the interpreter is a new one, and all variables are gone"

    class Arguments(ToolArguments):
        code: str = Field(max_length=100_000, description="The code, e.g. sum(range(10))")

    def start(self, backend: Backend) -> EpisodeBox:
        bounds = Bounds(memory=self.config.memory, disk=self.config.disk)
        return EpisodeBox(lambda: Box(backend, _GUEST, bounds))

    def call(self, held: EpisodeBox, arguments: Any, seconds: Callable[[float], float]) -> tuple[str, bool]:
        """Output, the last expression's value as a prompt shows it, and a short traceback if the code raised."""
        most = self.config.output
        held.exchange(b'{"most": 0}', seconds(_START), 1 << 10)  # only then does the code's own time begin
        request = json.dumps({"most": most, "code": arguments.code}).encode()
        data = held.exchange(request, seconds(self.config.seconds), (1 << 14) + 12 * most)
        try:
            answer = json.loads(data)
            text, dropped, failed = str(answer["text"])[:most], int(answer["dropped"]), bool(answer["failed"])
        except (ValueError, LookupError, TypeError) as error:
            held.lose()
            raise BoxEnded("it sent no answer") from error
        cut = f"\n[{dropped} more characters]" if dropped else ""
        return text.rstrip("\n") + cut or "(no output)", failed
