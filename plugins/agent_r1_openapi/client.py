"""Client: sends requests to one API over pooled connections, within bounds."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from agent_r1_core import ToolError
from agent_r1_core.contracts.secrets import Secrets
from agent_r1_openapi.config import OpenApiConfig
from agent_r1_openapi.description import Operation, Parameter

_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
"""Methods whose requests may be sent twice."""
_FIRST_PAUSE = 0.25
_MOST_REDIRECTS = 5
_CONNECTIONS = 64


class Away(ToolError):
    """The API did not answer."""


class Client:
    """Used in one event loop."""

    def __init__(self, config: OpenApiConfig, secrets: Secrets) -> None:
        """Nothing is sent yet."""
        self.server = httpx2.URL("")
        """Where requests go, and the only place to which headers of the recipe go."""
        self._config = config
        self._headers = {name: secrets.fill(value) for name, value in config.headers.items()}
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=5.0),  # a call has a time-out of its own
            limits=httpx2.Limits(
                max_connections=_CONNECTIONS, keepalive_expiry=2.0
            ),  # servers close idle ones after 5 s
        )

    async def fetch(self, url: str) -> str:
        """The text at an address."""
        status, _, content = await self._send("GET", httpx2.URL(url), {}, None)
        if status != 200:
            raise ValueError(f"{url} answers with status {status}")
        return content.decode("utf-8")

    async def perform(
        self, operation: Operation, arguments: Mapping[str, Any], deadline: float = math.inf
    ) -> str | None:
        """What the API answers.

        Raises:
            Away: it did not answer, or only that it cannot now.
            ToolError: it refused.
        """
        url, headers, body = self._request(operation, arguments)
        for attempt in range(1 + self._config.retries):
            pause, reason = _FIRST_PAUSE * 2**attempt, ""
            harmless = operation.method in _HARMLESS
            try:
                status, answered, content = await self._send(operation.method, url, headers, body)
            except httpx2.TransportError as error:
                reason, harmless = type(error).__name__, harmless or isinstance(error, httpx2.ConnectError)
            else:
                after = answered.get("retry-after", "")
                if status not in (429, 503) or not after.isdigit():
                    return _answer(status, answered, content)
                pause, reason = float(after), f"status {status}"
            if not harmless or time.monotonic() + pause > deadline or attempt == self._config.retries:
                break
            await asyncio.sleep(pause)
        raise Away(f"the service does not answer ({reason}); go on without it, or try again later")

    async def close(self) -> None:
        await self._client.aclose()

    def _request(self, operation: Operation, arguments: Mapping[str, Any]) -> tuple[httpx2.URL, dict[str, str], Any]:
        path, query, headers = operation.path, list[tuple[str, str]](), dict[str, str]()
        for argument, parameter in operation.parameters.items():
            value, name = arguments.get(argument), parameter.name
            if value is None:
                continue
            if parameter.place == "query":
                query += _pairs(parameter, value)
                continue
            text = _joined(parameter, value)
            if parameter.place == "path":
                if text in ("", ".", ".."):
                    raise ToolError(f"{argument} cannot be {text!r}; give another value")
                path = path.replace(f"{{{name}}}", quote(text, safe=","))
            else:
                headers[name] = quote(text, safe=" !#$&'()*+,/:;=?@[]")
        base = str(self.server).rstrip("/")
        url = httpx2.URL(f"{base}{path}", params=query) if query else httpx2.URL(f"{base}{path}")
        return url, headers, arguments.get("body")

    async def _send(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: Any
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and content of the answer, after the redirections that may be followed."""
        for _ in range(_MOST_REDIRECTS):
            own = {**headers, **self._headers} if _origin(url) == _origin(self.server) else {}
            content = None if body is None else json.dumps(body).encode()
            kind = {} if body is None else {"content-type": "application/json"}
            accept = {"accept": "application/json, text/*;q=0.9, */*;q=0.1"}
            async with self._client.stream(method, url, content=content, headers={**accept, **own, **kind}) as response:
                if not response.is_redirect:
                    return response.status_code, response.headers, await self._read(response)
                aim = url.join(response.headers.get("location", ""))
            if method not in ("GET", "HEAD") or (
                _origin(aim) != _origin(url) and aim.host not in self._config.redirects
            ):
                raise ToolError(f"the service redirects to {aim.scheme}://{aim.host}, which is not followed")
            url = aim
        raise ToolError("the service redirects too often")

    async def _read(self, response: httpx2.Response) -> bytes:
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            if len(content) > self._config.max_bytes:
                raise ToolError(f"the answer is longer than {self._config.max_bytes:,} bytes; ask for less")
        return bytes(content)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _decoded(content: bytes, charset: str) -> str:
    try:
        return content.decode(charset, "replace")
    except LookupError:  # there is no such charset
        return content.decode("utf-8", "replace")


def _text(value: Any) -> str:
    """A value as it stands in an address."""
    return value if isinstance(value, str) else json.dumps(value)


_BETWEEN = {"spaceDelimited": " ", "pipeDelimited": "|"}


def _pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """A value in the query, as its style says (OpenAPI 3.1, 4.8.12)."""
    name, style = parameter.name, parameter.style
    if isinstance(value, list) and parameter.explode and style != "json":
        return [(name, _text(one)) for one in value]
    if isinstance(value, dict) and (style == "deepObject" or (style == "form" and parameter.explode)):
        return [(f"{name}[{key}]" if style == "deepObject" else key, _text(one)) for key, one in value.items()]
    return [(name, _joined(parameter, value))]


def _joined(parameter: Parameter, value: Any) -> str:
    """A value as one text."""
    if parameter.style == "json" or not isinstance(value, list | dict):
        return _text(value)
    pairs = value.items() if isinstance(value, dict) else ()
    if parameter.explode:
        return ",".join(f"{key}={_text(one)}" for key, one in pairs) or ",".join(map(_text, value))
    flat = [part for pair in pairs for part in pair] if isinstance(value, dict) else value
    return _BETWEEN.get(parameter.style, ",").join(map(_text, flat))


def _answer(status: int, headers: Mapping[str, str], content: bytes) -> str | None:
    said = headers.get("content-type", "")
    kind, charset = said.partition(";")[0].strip(), re.search(r"charset=[\"']?([\w.-]+)", said, re.IGNORECASE)
    readable = kind.startswith("text/") or kind.endswith(("json", "xml", "yaml")) or not kind
    text = _decoded(content, charset[1] if charset else "utf-8") if readable else f"[{kind}, {len(content):,} bytes]"
    if status >= 400:
        raise (Away if status >= 500 else ToolError)(f"status {status}: {text or 'no reason given'}")
    return text or None
