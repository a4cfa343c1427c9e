"""The toolset `mcp`: every tool of an MCP server, under names that models can write."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import Coroutine, Sequence
from typing import IO, Any

from agent_r1_core import ComponentConfig, Metric, SchemaTool, Tool, ToolContext, ToolError, ToolResources, Toolset
from agent_r1_core.contracts.secrets import Secrets, variables
from agent_r1_core.contracts.toolset import Owner, chosen
from agent_r1_mcp.config import McpConfig
from agent_r1_mcp.results import text_of
from agent_r1_mcp.server import Away, Server
from agent_r1_mcp.session import Connection

_LOG_BYTES = 1 << 20
"""What is kept of what a command prints to its standard error; then it begins anew."""


class McpToolset(Toolset):
    """The tools of an MCP server, over the package mcp.

    A model's name for a tool has letters, digits, `_` and `-`; what else is in the server's name becomes `_`. A server
    that died or hangs is started again for the next call, and a call that it did not answer has failed.
    """

    Config = McpConfig
    metrics = (Metric("away", "calls that the server did not answer", unit="share", better="lower"),)

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._owner: Owner | None = None
        self._members: list[_Member] = []
        self._where = shlex.join(self.config.command) or str(self.config.url)

    @classmethod
    def idle_options(cls, config: McpConfig) -> dict[str, str]:
        return config.idle()

    @classmethod
    def unavailable(cls, config: McpConfig) -> str | None:
        return config.unavailable()

    @classmethod
    def programs(cls, config: McpConfig) -> dict[str, str]:
        """The command with the variables that it gets, and the variables that are sent to an address."""
        sent = " ".join(variables(config.headers.values()))
        named = {
            "command": shlex.join(config.command),
            "env": " ".join(config.env),
            "headers": f"{sent} to {config.url}" if sent else "",
        }
        return {option: f"{option} {text}" for option, text in named.items() if text}

    def open(self, resources: ToolResources) -> None:
        """Start the server and list its tools; a ToolError where that fails."""
        self._secrets = Secrets([*self.config.env, *variables(self.config.headers.values())])
        self._stderr = _appended()
        self._starting = asyncio.Semaphore(os.cpu_count() or 1)
        self._servers: dict[str, Server] = {}
        self._owner = Owner(f"agent-r1-{self.name}")
        try:
            tools = {tool["name"]: tool for tool in self._owner.run(self._list())}
            member = _EpisodeMember if self.config.per_episode else _Member
            self._members = [
                member(self, tool) for tool in chosen(self.config.only, tools, f"the MCP server {self._where}")
            ]
        except BaseException as error:
            printed = self._last_line()
            self.close()
            if isinstance(error, ToolError) or not isinstance(error, Exception):
                raise
            text = self._secrets.hide(f"{str(error) or type(error).__name__}{printed}")
            raise ToolError(f"the MCP server {self._where} cannot be used: {text}; correct that") from None

    def members(self) -> Sequence[Tool]:
        """One for each tool that is offered."""
        return self._members

    def describe(self) -> dict[str, Any]:
        """Where the server is, and its tools: the name that the model uses, and the server's."""
        return {"server": self._where, "tools": {one.name: one.tool for one in self._members}}

    def close(self) -> None:
        """End every session and process, and the thread."""
        if self._owner is not None:
            owner, self._owner = self._owner, None
            owner.run(self._close())
            owner.close()
            self._stderr.close()

    async def call(self, tool: str, arguments: dict[str, Any], context: ToolContext) -> str:
        """What the model reads of a call of the server's tool of that name; a ToolError where it failed."""
        if self._owner is None:
            raise ToolError("the server is closed")
        context.metrics["away"] = 0.0
        episode = context.episode if self.config.per_episode else ""
        try:
            result = await self._owner.awaited(self._call(episode, tool, arguments))
            return self._secrets.hide(text_of(result))
        except ToolError as error:
            context.metrics["away"] = float(isinstance(error, Away))
            raise ToolError(self._secrets.hide(str(error))) from None

    async def end_episode(self, context: ToolContext) -> None:
        """End the process of an episode."""
        if self._owner is not None:
            await self._owner.awaited(self._close(context.episode))

    def _connect(self) -> Connection:
        if os.fstat(self._stderr.fileno()).st_size > _LOG_BYTES:
            self._stderr.truncate(0)
        return Connection(self.config, self._secrets, self._stderr, self._starting)

    async def _list(self) -> list[dict[str, Any]]:
        """All tools of a server; the one that serves the run stays."""
        server = self._servers[""] = Server(self._where, self._connect)
        tools = await server.tools()
        if self.config.per_episode:
            await self._close("")
        return tools

    async def _call(self, episode: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        server = self._servers.get(episode)
        if server is None:
            server = self._servers[episode] = Server(self._where, self._connect)
        return await server.call(tool, arguments)

    async def _close(self, *episodes: str) -> None:
        """Close the servers of these episodes; of none, all."""
        closing = [self._servers.pop(one) for one in episodes or tuple(self._servers) if one in self._servers]
        await asyncio.gather(*(server.close() for server in closing))

    def _last_line(self) -> str:
        """What the command printed last."""
        self._stderr.seek(0)
        lines = self._stderr.read(_LOG_BYTES).split("\n")
        return next((f" ({line.strip()[:300]})" for line in reversed(lines) if line.strip()), "")


class _Member(SchemaTool):
    """A tool of a server."""

    def __init__(self, toolset: McpToolset, tool: dict[str, Any]) -> None:
        super().__init__(f"{toolset.config.prefix}{tool['name']}", tool.get("description") or "", tool["inputSchema"])
        self.tool = tool["name"]
        self._toolset = toolset

    async def perform(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return await self._toolset.call(self.tool, arguments, context)


class _EpisodeMember(_Member):
    """A tool of a server of which each episode has a process of its own."""

    def release(self, context: ToolContext) -> Coroutine[Any, Any, None]:
        return self._toolset.end_episode(context)


def _appended() -> IO[str]:
    """A file without a name, to whose end everybody writes."""
    descriptor, path = tempfile.mkstemp()
    os.close(descriptor)
    file = open(path, "a+", encoding="utf-8", errors="replace")  # noqa: SIM115
    os.unlink(path)
    return file
