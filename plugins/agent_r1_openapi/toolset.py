"""The toolset `openapi`: every operation of an HTTP API, from its OpenAPI description."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agent_r1_core import ComponentConfig, Metric, SchemaTool, Tool, ToolContext, ToolError, ToolResources, Toolset
from agent_r1_core.contracts.secrets import Secrets, variables
from agent_r1_core.contracts.toolset import Owner, chosen
from agent_r1_core.opening import read_text
from agent_r1_openapi.config import OpenApiConfig
from agent_r1_openapi.description import Operation, operations_of, read_description

_FETCH_SECONDS = 30.0


class OpenApiToolset(Toolset):
    """The operations of an HTTP API, from its OpenAPI description.

    Parameters of paths, queries and headers are arguments, and a JSON body is the argument `body`. An answer with a
    status from 400 on is a failed call, whose text the model reads.
    """

    Config = OpenApiConfig
    metrics = (
        Metric(
            "away", "calls that the service did not answer, or with a status from 500", unit="share", better="lower"
        ),
    )

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._owner: Owner | None = None
        self._members: list[_Member] = []

    @classmethod
    def unavailable(cls, config: OpenApiConfig) -> str | None:
        return config.unavailable()

    @classmethod
    def programs(cls, config: OpenApiConfig) -> dict[str, str]:
        """The environment variables that are sent, and where to."""
        return {"headers": f"headers {config.sends()}"} if config.sends() else {}

    def open(self, resources: ToolResources) -> None:
        """Read the description; a ToolError where that fails."""
        from agent_r1_openapi.client import Client

        self._secrets = Secrets(variables(self.config.headers.values()))
        self._owner = Owner(f"agent-r1-{self.name}")
        self._client = Client(self.config, self._secrets)
        try:
            if why := self.config.unavailable():
                raise ToolError(f"the API of {self._where} cannot be used: {why}")
            description = read_description(self._text())
            self._client.server = self._server(description)
            operations = {one.name: one for one in operations_of(description)}
            offered = chosen(self.config.operations, operations, f"the API of {self._where}")
            self._members = [_Member(self, one) for one in offered]
        except BaseException as error:
            self.close()
            if isinstance(error, ToolError) or not isinstance(error, Exception):
                raise
            text = self._secrets.hide(str(error) or type(error).__name__)
            raise ToolError(f"the API of {self._where} cannot be used: {text}; correct that") from None

    def members(self) -> Sequence[Tool]:
        """One for each operation that is offered."""
        return self._members

    def describe(self) -> dict[str, Any]:
        """Where requests go, and what each tool asks for."""
        tools = {one.name: f"{one.operation.method} {one.operation.path}" for one in self._members}
        return {"server": str(self._client.server), "tools": tools}

    def close(self) -> None:
        """Close the connections, and end the thread."""
        if self._owner is not None:
            owner, self._owner = self._owner, None
            owner.run(self._client.close())
            owner.close()

    async def call(self, operation: Operation, arguments: dict[str, Any], context: ToolContext) -> str | None:
        """What the model reads of a call; a ToolError where it failed."""
        from agent_r1_openapi.client import Away

        if self._owner is None:
            raise ToolError("the connection is closed")
        context.metrics["away"] = 0.0
        try:
            answer = await self._owner.awaited(self._client.perform(operation, arguments, context.deadline))
            return None if answer is None else self._secrets.hide(answer)
        except ToolError as error:
            context.metrics["away"] = float(isinstance(error, Away))
            raise ToolError(self._secrets.hide(str(error))) from None

    @property
    def _where(self) -> str:
        return str(self.config.url or self.config.path)

    def _text(self) -> str:
        if self.config.path is not None:
            return read_text(self.config.path)
        assert self._owner is not None
        fetched: str = self._owner.run(asyncio.wait_for(self._client.fetch(self.config.url), _FETCH_SECONDS))
        return fetched

    def _server(self, description: dict[str, Any]) -> Any:
        """Where requests go.

        Raises:
            ToolError: only the description says so, and it names another host than its own.
        """
        import httpx2

        if self.config.server is not None:
            return httpx2.URL(self.config.server)
        own = httpx2.URL(self.config.url)
        server = own.join((description.get("servers") or [{"url": "/"}])[0]["url"])
        if server.host != own.host:
            raise ToolError(f"the description at {own} sends requests to {server}; name that as server if you mean it")
        return server


class _Member(SchemaTool):
    """An operation."""

    def __init__(self, toolset: OpenApiToolset, operation: Operation) -> None:
        super().__init__(f"{toolset.config.prefix}{operation.name}", operation.description, operation.schema)
        self.operation = operation
        self._toolset = toolset

    async def perform(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return await self._toolset.call(self.operation, arguments, context)
