"""A calculator as an HTTP API with an OpenAPI description: `python calculator_api.py [PORT]`."""

from __future__ import annotations

import sys

import uvicorn
from agent_r1_calculator.evaluator import evaluate
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from agent_r1_core import ToolError

EXPRESSION = {"name": "expression", "in": "query", "required": True, "schema": {"type": "string"}}
GET = {
    "operationId": "calculator",
    "summary": "Evaluates an arithmetic expression and returns the result.",
    "parameters": [EXPRESSION],
}
DESCRIPTION = {"openapi": "3.1.0", "info": {"title": "Sums", "version": "1"}, "paths": {"/sum": {"get": GET}}}


def describe(request: Request) -> JSONResponse:
    return JSONResponse(DESCRIPTION)


def calculate(request: Request) -> PlainTextResponse:
    try:
        return PlainTextResponse(str(evaluate(request.query_params.get("expression", ""))))
    except ToolError as error:
        return PlainTextResponse(str(error), 422)


app = Starlette(routes=[Route("/openapi.json", describe), Route("/sum", calculate)])

if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]) if len(sys.argv) > 1 else 8720, log_level="warning")
