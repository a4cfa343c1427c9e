"""Operations: what an OpenAPI description offers, as tools read it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from agent_r1_core.errors import first_line

_LOG = logging.getLogger(__name__)
METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_PLACES = ("path", "query", "header")
_OWN_HEADERS = {"accept", "content-type", "authorization"}
_POINTER = "#/components/schemas/"


@dataclass(frozen=True)
class Parameter:
    """Where an argument goes, and how it is written there."""

    place: str
    """`path`, `query` or `header`."""
    name: str
    style: str
    """As OpenAPI names it: `form`, `simple`, `pipeDelimited`, ...; `json`: as JSON."""
    explode: bool


@dataclass(frozen=True)
class Operation:
    """One request that the API offers."""

    name: str
    description: str
    method: str
    path: str
    """With `{parameter}` where a parameter of the path goes."""
    parameters: dict[str, Parameter]
    """By the name of the argument."""
    schema: dict[str, Any]
    """Of the arguments; that of the body is called `body`."""


def read_description(text: str) -> dict[str, Any]:
    """The description.

    Raises:
        ValueError: it is no OpenAPI 3 in JSON or YAML.
    """
    try:
        read = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"it is neither JSON nor YAML ({first_line(error)})") from None
    if not isinstance(read, dict) or not str(read.get("openapi", "")).startswith("3."):
        raise ValueError("it is no description in OpenAPI 3")
    return read


def operations_of(description: Mapping[str, Any]) -> Iterator[Operation]:
    """The operations, in the order of the description; of several bodies the one in JSON. One that requires what is not
    sent is left out, and the log says so."""
    for path, item in description.get("paths", {}).items():
        shared = item.get("parameters", [])
        for method in METHODS:
            if method not in item:
                continue
            unsent = _unsent(description, item[method], shared)
            if unsent:
                _LOG.warning("openapi leaves out %s %s, which needs %s", method.upper(), path, unsent)
            else:
                yield _operation(description, path, method, item[method], shared)


def _unsent(description: Mapping[str, Any], given: Mapping[str, Any], shared: list[Any]) -> str:
    """What an operation requires that no request has; empty if there is nothing."""
    for one in (_resolved(description, each) for each in (*shared, *given.get("parameters", []))):
        if one.get("required") and one["in"] not in _PLACES:
            return f"the {one['in']} {one['name']}"
        if one["in"] == "path" and one.get("style", "simple") != "simple":
            return f"the path parameter {one['name']} in the style {one['style']}"
    body = _resolved(description, given.get("requestBody", {}))
    if body.get("required") and not any(map(_is_json, body.get("content", {}))):
        return f"a body of {' or '.join(body.get('content', {})) or 'no kind'}"
    return ""


def _is_json(kind: str) -> bool:
    return kind.partition(";")[0] == "application/json"


def _operation(
    description: Mapping[str, Any], path: str, method: str, given: Mapping[str, Any], shared: list[Any]
) -> Operation:
    parameters: dict[str, Parameter] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    declared = {(one["in"], one["name"]): one for one in (_resolved(description, each) for each in shared)}
    declared |= {
        (one["in"], one["name"]): one for one in (_resolved(description, p) for p in given.get("parameters", []))
    }
    for (place, name), parameter in declared.items():
        if place not in _PLACES or (place == "header" and name.lower() in _OWN_HEADERS):
            continue
        argument = f"{place}_{name}" if name in properties or name == "body" else name
        style = parameter.get("style") or ("form" if place == "query" else "simple")
        style, explode = "json" if "content" in parameter else style, parameter.get("explode", style == "form")
        parameters[argument] = Parameter(place, name, style, explode)
        schema = parameter.get("schema") or {}
        about = parameter.get("description")
        properties[argument] = {**schema, "description": about} if about else dict(schema)
        if parameter.get("required") or place == "path":
            required.append(argument)
    body = _resolved(description, given.get("requestBody", {}))
    content = body.get("content", {})
    media = next((content[kind] for kind in content if _is_json(kind)), None)
    if media is not None:
        properties["body"] = media.get("schema") or {}
        required += ["body"] if body.get("required") else []
    schema = _with_definitions(description, {"type": "object", "properties": properties, "required": required})
    texts = dict.fromkeys(text.strip() for text in (given.get("summary"), given.get("description")) if text)
    name = given.get("operationId") or re.sub(r"[^A-Za-z0-9]+", "_", f"{method} {path}").strip("_")
    return Operation(name, "\n".join(texts), method.upper(), path, parameters, schema)


def _resolved(description: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference within the description stands for."""
    for _ in range(8):
        if "$ref" not in given:
            return given
        found: Any = description
        for part in str(given["$ref"]).removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]
        given = found
    raise ValueError(f"the reference {given['$ref']} leads in a circle")


def _with_definitions(description: Mapping[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the component schemas that it refers to, under `$defs`."""
    known = description.get("components", {}).get("schemas", {})
    definitions: dict[str, Any] = {}

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(one) for one in value]
        if not isinstance(value, dict):
            return value
        pointer = value.get("$ref")
        if isinstance(pointer, str) and pointer.startswith(_POINTER):
            name = pointer.removeprefix(_POINTER)
            if name not in definitions:
                definitions[name] = {}
                definitions[name] = moved(known[name])
            return {**value, "$ref": f"#/$defs/{name}"}
        return {key: moved(one) for key, one in value.items()}

    whole = moved(schema)
    return {**whole, "$defs": definitions} if definitions else whole
