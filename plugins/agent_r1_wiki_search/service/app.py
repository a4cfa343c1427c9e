"""The FastAPI app: POST /search, GET /health, GET /metrics.

A body is read as JSON, whatever its content type says. Every refusal is JSON with one sentence under `error`. A request
that comes too early, too late or too often gets 503 and may be repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect

from agent_r1_core import __version__
from agent_r1_wiki_search.service.batching import Cut, QueueFull
from agent_r1_wiki_search.service.complaints import complaint
from agent_r1_wiki_search.service.counters import CONTENT_TYPE
from agent_r1_wiki_search.service.door import Door, unavailable
from agent_r1_wiki_search.service.messages import SearchRequest, search_answer
from agent_r1_wiki_search.service.service import REASONS, Service, State

_LOG = logging.getLogger(__name__)


def build_app(service: Service, names: Collection[str]) -> FastAPI:
    """The app of a service, which somebody else loads and closes; `names` as for `Door`."""
    app = FastAPI(title="agent-r1 wiki_search", version=__version__, docs_url=None, redoc_url=None)
    app.add_middleware(Door, service=service, names=names)
    app.add_exception_handler(StarletteHTTPException, _refuse)

    @app.post("/search")
    async def search(request: Request) -> Response:
        """The passages that match each query best."""
        asked = await _read(request)
        _check_ready(service)
        try:
            results = await service.search(asked.queries, asked.top_k)
        except QueueFull:
            raise unavailable("too many queries wait already; try again later") from None
        except Cut:
            raise unavailable(REASONS[State.STOPPING], close=True) from None
        except Exception as error:
            service.counters.error()
            _LOG.exception("the searcher failed")
            raise HTTPException(500, f"the searcher failed with {type(error).__name__}: {error}") from error
        return Response(search_answer(results, service.index), media_type="application/json")

    @app.get("/health")
    async def health() -> Response:
        """Whether searches are answered, and what is searched."""
        status = {"status": service.state.value, "index": service.index, "facts": service.facts}
        return JSONResponse(status, 200 if service.state is State.READY else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        """The metrics in Prometheus' text format."""
        return Response(service.counters.text(), media_type=CONTENT_TYPE)

    return app


async def _read(request: Request) -> SearchRequest:
    try:
        return SearchRequest.model_validate_json(await request.body())
    except ValidationError as error:
        raise HTTPException(422, complaint(error)) from None
    except ClientDisconnect:
        raise HTTPException(400, "the request ended before its body did; send it again") from None


def _check_ready(service: Service) -> None:
    if service.state is not State.READY:
        raise unavailable(REASONS[service.state], close=service.state is State.STOPPING)


async def _refuse(request: Request, error: Any) -> Response:
    return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)
