"""An HTTP API with its own OpenAPI description, over Starlette."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

KEY = "a-very-secret-key"
NAMES = ("key", "flaky", "busy", "away", "long", "slow", "near", "far")


def operation(name: str, *parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"operationId": name, "summary": f"The operation {name}.", "parameters": list(parameters), **more}


def parameter(name: str, place: str = "query", kind: str = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": kind}, **more}


NOTE = {"type": "object", "properties": {"text": {"type": "string"}, "next": {"$ref": "#/components/schemas/Note"}}}
BODY = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Note"}}}}
DESCRIPTION: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Notes", "version": "1"},
    "paths": {
        "/notes/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": operation(
                "get.note", parameter("tag", kind="array"), parameter("id", "query"), parameter("X-Mood", "header")
            ),
            "put": operation("put_note", requestBody=BODY),
            "post": operation("post_note", requestBody=BODY),
        },
        **{f"/{name}": {"get": operation(name)} for name in NAMES},
        "/unsafe": {"post": operation("unsafe")},
    },
    "components": {
        "schemas": {"Note": NOTE, "Unused": {"type": "object"}},
        "parameters": {"Id": parameter("id", "path", "integer", required=True)},
    },
}


def app(elsewhere: str = "") -> Starlette:
    """The API; `seen` counts requests by path, and `far` redirects elsewhere."""
    seen: Counter[str] = Counter()

    async def note(request: Request) -> Response:
        seen[request.method] += 1
        if request.method != "GET":
            return JSONResponse({"kept": await request.json()}, 201)
        given = {**request.path_params, "tags": request.query_params.getlist("tag")}
        return JSONResponse(given | {"query": request.query_params.get("id"), "mood": request.headers.get("x-mood")})

    async def answer(request: Request) -> Response:
        name = request.url.path.strip("/")
        seen[name] += 1
        match name:
            case "key":
                return PlainTextResponse(request.headers.get("authorization", "no key"))
            case "flaky" if seen[name] < 3:
                return Response(status_code=503, headers={"retry-after": "0"})
            case "busy" | "unsafe":
                return Response("wait", status_code=429, headers={"retry-after": "0"})
            case "away":
                return JSONResponse({"error": f"broken for {KEY}"}, 500)
            case "long":
                return Response(b"x" * (2 << 20), media_type="text/plain")
            case "slow":
                await asyncio.sleep(60)
            case "near":
                return RedirectResponse("/key")
            case "far":
                return RedirectResponse(f"{elsewhere}/key")
        return PlainTextResponse("done")

    routes = [Route(f"/{name}", answer) for name in NAMES]
    routes += [Route("/unsafe", answer, methods=["POST"]), Route("/notes/{id}", note, methods=["GET", "PUT", "POST"])]
    routes.append(Route("/openapi.json", lambda request: JSONResponse(DESCRIPTION)))
    made = Starlette(routes=routes)
    made.state.seen = seen
    return made
