"""Tools of OpenAI's Responses API: functions, custom tools, and the namespaces that Codex puts them in.

The model sees every tool as a function of one name; a namespace's name stands before it: `files__read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent_r1_gateway.dialects.shapes import function_tool, objects, string
from agent_r1_gateway.wire import Refused

_WITHOUT_EFFECT = (
    "tool_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
)
"""Tools that coding agents send by default, and that the model does not see."""


@dataclass(frozen=True)
class Tool:
    """A tool as the client knows it."""

    name: str
    namespace: str | None = None
    custom: bool = False
    """Its argument is one text."""

    @property
    def flat(self) -> str:
        """Its name to the model."""
        return self.name if self.namespace is None else f"{self.namespace}__{self.name}"


def read_tools(body: Mapping[str, Any]) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """The tools of a request as function schemas, and those that have no effect.

    Items of the type `additional_tools`, which Codex sends for models that it knows, add theirs.

    Raises:
        Refused: the gateway does not have such a tool, or two have one name.
    """
    schemas, ignored, known = list[dict[str, Any]](), list[str](), dict[str, Tool]()
    for path, kind, tool, described in _every(body):
        if tool is None:
            if kind not in _WITHOUT_EFFECT:
                sentence = f"{path}: the gateway has no tool of the type {kind[:80]!r}; send functions or custom tools"
                raise Refused(sentence, field=path)
            ignored.append(f"tools.{kind}")
            continue
        if known.setdefault(tool.flat, tool) != tool:
            sentence = f"{path}.name: another tool is named {tool.flat[:80]!r}, too; rename one"
            raise Refused(sentence, field=f"{path}.name")
        parameters = _one_text(described) if tool.custom else described.get("parameters")
        schemas.append(function_tool(tool.flat, described.get("description"), parameters, path, "parameters"))
    return tuple(schemas), tuple(ignored)


def tools_by_name(body: Mapping[str, Any]) -> dict[str, Tool]:
    """The tools of a request that `read_tools` has read, by their names to the model."""
    return {tool.flat: tool for _, _, tool, _ in _every(body) if tool is not None}


_Described = tuple[str, str, Tool | None, Mapping[str, Any]]
"""Its path, its type, what it is to the client (None: hosted), and its description."""


def _every(body: Mapping[str, Any]) -> Iterator[_Described]:
    yield from _walk(body.get("tools"), "tools")
    items = body.get("input")
    for path, item in objects(items, "input") if isinstance(items, list | tuple) else ():
        if item.get("type") == "additional_tools":
            yield from _walk(item.get("tools"), f"{path}.tools")


def _walk(given: Any, at: str, namespace: str | None = None) -> Iterator[_Described]:
    for path, one in objects(given, at):
        kind = string(one.get("type"), f"{path}.type")
        if kind == "namespace" and namespace is None:
            yield from _walk(one.get("tools"), f"{path}.tools", string(one.get("name"), f"{path}.name"))
        elif kind in ("function", "custom"):
            yield path, kind, Tool(string(one.get("name"), f"{path}.name"), namespace, kind == "custom"), one
        else:
            yield path, kind, None, one


def _one_text(described: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a custom tool's argument; the grammar that it has to follow stands in the description."""
    text, form = {"type": "string"}, described.get("format")
    if isinstance(form, Mapping) and isinstance(form.get("definition"), str):
        text["description"] = f"Text of this grammar ({form.get('syntax')}):\n{form['definition']}"
    return {"type": "object", "properties": {"input": text}, "required": ["input"]}
