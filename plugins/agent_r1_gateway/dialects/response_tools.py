"""Tools of OpenAI's Responses API: functions, custom tools, and the namespaces that Codex puts them in.

The model sees every tool as a function of one name; a namespace's name stands before it: `files__read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent_r1_gateway.dialects.shapes import Given, function_tool

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


def read_tools(given: Given) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """The tools of a request as function schemas, and those that have no effect.

    Items of the type `additional_tools`, which Codex sends for models that it knows, add theirs.

    Raises:
        Refused: the gateway does not have such a tool, or two have one name.
    """
    schemas, ignored, known = list[dict[str, Any]](), list[str](), dict[str, Tool]()
    for described, tool in _every(given):
        if tool is None:
            kind = described["type"].string()
            if kind not in _WITHOUT_EFFECT:
                described.refuse(f"has the type {kind[:80]!r}, which the gateway lacks; send functions or custom tools")
            ignored.append(f"tools.{kind}")
            continue
        if known.setdefault(tool.flat, tool) != tool:
            described["name"].refuse(f"is {tool.flat[:80]!r} to the model, as another tool is; rename one")
        changed = {"name": tool.flat} | ({"parameters": _one_text(described)} if tool.custom else {})
        schemas.append(function_tool(Given({**described.value, **changed}, described.where)))
    return tuple(schemas), tuple(ignored)


def tools_by_name(body: Mapping[str, Any]) -> dict[str, Tool]:
    """The tools of a request that `read_tools` has read, by their names to the model."""
    return {tool.flat: tool for _, tool in _every(Given(body)) if tool is not None}


def _every(given: Given) -> Iterator[tuple[Given, Tool | None]]:
    """Each tool's description, and what it is to the client; None: hosted."""
    yield from _walk(given["tools"])
    for item in given["input"] if isinstance(given["input"].value, list) else ():
        if item["type"].value == "additional_tools":
            yield from _walk(item["tools"])


def _walk(given: Given, namespace: str | None = None) -> Iterator[tuple[Given, Tool | None]]:
    for one in given:
        kind = one["type"].string()
        if kind == "namespace" and namespace is None:
            yield from _walk(one["tools"], one["name"].string())
        elif kind in ("function", "custom"):
            yield one, Tool(one["name"].string(), namespace, kind == "custom")
        else:
            yield one, None


def _one_text(described: Given) -> dict[str, Any]:
    """The schema of a custom tool's argument; the grammar that it has to follow stands in the description."""
    text, form = {"type": "string"}, described["format"].value
    if isinstance(form, Mapping) and isinstance(form.get("definition"), str):
        text["description"] = f"Text of this grammar ({form.get('syntax')}):\n{form['definition']}"
    return {"type": "object", "properties": {"input": text}, "required": ["input"]}
