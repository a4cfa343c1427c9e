"""The tool `shell`: one folder for each episode, in a sandbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field

from agent_r1_core import ToolArguments
from agent_r1_core.sandbox import Backend, Bounds, Shell
from agent_r1_python.sandboxed import SandboxConfig, SandboxedTool


class ShellConfig(SandboxConfig):
    """Options of `shell`."""

    processes: int = Field(32, ge=4)
    """Most at once."""


class ShellTool(SandboxedTool):
    """Runs a shell command in your folder and returns what it prints. Files stay for later calls, processes do not."""

    Config = ShellConfig
    needs_folder = True
    lost = "the working folder is a new one, and all files are gone"

    class Arguments(ToolArguments):
        command: str = Field(max_length=100_000, description="The command, e.g. ls -l")

    def start(self, backend: Backend) -> Shell:
        config = self.config
        return Shell(backend, Bounds(config.memory, config.disk, config.processes, folders=("/work", "/tmp")))

    def call(self, held: Shell, arguments: Any, seconds: Callable[[float], float]) -> tuple[str, bool]:
        """What the command printed; one that takes too long is killed, and its files stay."""
        outcome = held.run(arguments.command, seconds(self.config.seconds), self.config.output)
        return str(outcome), outcome.code != 0
