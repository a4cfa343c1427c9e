"""An MCP server with tools of every temper, for the packages mcp 1.x and 2.x: `demo_server.py [PORT]`."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

try:
    from mcp.server import MCPServer as Server
    from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server

    InputRequiredResult = None

from mcp.types import CallToolResult, ImageContent, TextContent

server = Server("demo")
counted = 0


@server.tool()
def add(a: int, b: int = 1) -> int:
    """Adds two integers."""
    return a + b


@server.tool(name="geo.move/to")
def move() -> str:
    """Has a name that models cannot write."""
    return "moved"


@server.tool()
def count() -> int:
    """Counts the calls of this process."""
    global counted
    counted += 1
    return counted


@server.tool()
def process() -> int:
    """Its number."""
    return os.getpid()


@server.tool()
def die() -> str:
    """Ends the process."""
    os._exit(3)


@server.tool()
async def sleep(seconds: float) -> str:
    """Sleeps, and lets others work."""
    await asyncio.sleep(seconds)
    return "slept"


@server.tool()
async def hang() -> str:
    """Blocks the whole server."""
    time.sleep(60)
    return "awake"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no luck")


@server.tool()
def secret() -> str:
    """Tells a secret."""
    print("not a message of the protocol", flush=True)
    return f"the key is {os.environ.get('DEMO_KEY')}"


@server.tool()
def look() -> Any:
    """Shows a picture."""
    picture = ImageContent(type="image", data="AAAA" * 100, **{MIME: "image/png"})
    return CallToolResult(content=[TextContent(type="text", text="a cat"), picture])


@server.tool()
def facts() -> Any:
    """Has structured content alone."""
    return CallToolResult(content=[], **{STRUCTURED: {"legs": 4}})


OLD = InputRequiredResult is None
MIME, STRUCTURED = ("mimeType", "structuredContent") if OLD else ("mime_type", "structured_content")

if not OLD:

    @server.tool()
    def ask() -> InputRequiredResult:
        """Asks for input."""
        question = ElicitRequestFormParams(message="Which one?", requested_schema={"type": "object", "properties": {}})
        return InputRequiredResult(input_requests={"which": ElicitRequest(params=question)})


if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run("stdio")
    elif OLD:
        server.settings.port = int(sys.argv[1])
        server.run("streamable-http")
    else:
        server.run("streamable-http", port=int(sys.argv[1]))
