"""The options of the toolset `mcp`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

from pydantic import AfterValidator, Field

from agent_r1_core import ComponentConfig, LocalPath
from agent_r1_core.contracts.secrets import check_headers


class McpConfig(ComponentConfig):
    command: tuple[str, ...] = ()
    """The server's program and its arguments; it speaks over its standard input and output."""
    url: str | None = None
    """Instead of a command: the address of a server that speaks streamable HTTP."""
    folder: LocalPath | None = None
    """The folder in which the command runs; null: the one in which the run was started."""
    env: tuple[str, ...] = ()
    """Names of environment variables that the command gets besides HOME, PATH and the like, such as those of keys."""
    headers: Annotated[dict[str, str], AfterValidator(check_headers)] = Field(default_factory=dict)
    """Sent to the address; `${NAME}` stands for an environment variable, so that no secret is in a recipe."""
    per_episode: bool = False
    """A process of the command for each episode that calls it, which ends with the episode; else one serves all."""
    only: tuple[str, ...] = ()
    """The tools to offer, by the server's names; empty: all."""
    prefix: str = Field(default="", pattern=r"[A-Za-z0-9_-]{0,32}")
    """Precedes the names of the tools, so that those of two servers differ."""
    start_timeout: float = Field(default=60.0, gt=0)
    """Seconds that the server may take to start, and again to list its tools."""

    def idle(self) -> dict[str, str]:
        """Options without effect, and why."""
        if self.command:
            return {"headers": "a command gets no headers; name variables in env"}
        return dict.fromkeys(("folder", "env"), "there is no command") | {
            "per_episode": "there is no command, and a session with an address keeps nothing apart"
        }

    def unavailable(self) -> str | None:
        """Why it cannot be used, and what to do."""
        if find_spec("mcp") is None:
            return "it needs the package mcp; run `pip install 'agent-r1[mcp]'`"
        if bool(self.command) == bool(self.url):
            return "it takes either a command, such as [python, server.py], or the url of a server; give one of them"
        return None
