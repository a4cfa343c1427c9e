"""The tool `python`: one interpreter for each episode, in a sandbox."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from agent_r1_core import ToolArguments, ToolContext
from agent_r1_python.sandboxed import SandboxConfig, SandboxedTool


class PythonConfig(SandboxConfig):
    """Options of `python`."""

    unsafe: bool = False
    """Without a sandbox: the model's code runs as you, and can read and change what you can."""


class Python(SandboxedTool):
    """Runs Python code: returns what it prints and its last expression's value. Variables stay for later calls."""

    Config = PythonConfig
    guest = "python_guest.py"
    lost = "the interpreter is a new one, and all variables are gone"

    class Arguments(ToolArguments):
        code: str = Field(max_length=100_000, description="The code, e.g. sum(range(10))")

    def run(self, arguments: Any, context: ToolContext) -> str:
        """Output, the last expression's value as a prompt shows it, and a short traceback if the code raised.

        Raises:
            ToolError: it took too long, or ended its interpreter.
        """
        return self.ask({"code": arguments.code}, context)
