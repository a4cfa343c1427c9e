"""Toolset: one entry of a recipe's `tools` that stands for several tools, which are known once it is open."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from agent_r1_core.contracts.tool import Tool, ToolContext, without_titles
from agent_r1_core.errors import ToolError

_LONGEST_NAME = 64


class Toolset(Tool):
    """Opens what brings its own tools, such as a server. The model sees those, and never the toolset.

    `timeout` of its entry holds for each call of each tool. A recipe may name a toolset several times.
    """

    def members(self) -> Sequence[Tool]:
        """The tools of the opened toolset, each under the name that the model uses. Nobody opens or closes them; they
        run in this process, give no rewards, and report the metrics that the toolset declares.
        """
        raise TypeError(f"toolset {type(self).__name__} defines no members(); add it")

    def run(self, arguments: Any, context: ToolContext) -> Any:
        raise TypeError(f"toolset {self.name} is no tool; call one of its members")


class SchemaTool(Tool):
    """A tool whose name, description and JSON schema come from elsewhere; a subclass defines `perform`.

    Only the names of arguments are checked: required ones must be there, and unknown ones are refused unless the schema
    says that there are more, or lists none. Whoever performs the call checks the values.
    """

    def __init__(self, name: str, description: str, parameters: Mapping[str, Any]) -> None:
        super().__init__()
        self.name = function_name(name)
        given = without_titles(parameters)
        self._parameters = {"properties": {}, **given, "type": "object"}
        self._function = {"name": self.name, "description": description.strip() or name, "parameters": self._parameters}
        self.Arguments = _arguments(given)  # type: ignore[misc]  # the arguments of this instance

    def schema(self) -> dict[str, Any]:
        return {"type": "function", "function": dict(self._function)}

    def run(self, arguments: BaseModel, context: ToolContext) -> Any:
        return self.perform(arguments.model_dump(by_alias=True, exclude_unset=True), context)

    def perform(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """As `run`, with the arguments that the model gave, by name."""
        raise TypeError(f"tool {type(self).__name__} defines no perform(arguments, context); add one")


class Owner:
    """An event loop in a thread of its own, where the sessions of a toolset live whatever loop their callers have."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The coroutine's result, for a thread without an event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def awaited(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """The coroutine's result, for another event loop; cancelling it cancels the coroutine."""
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def close(self) -> None:
        """End the thread; nothing may run any more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def function_name(name: str) -> str:
    """The name as models write it: letters, digits, `_` and `-`, at most 64 of them; any other becomes `_`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME]


def chosen(wanted: Sequence[str], offered: Mapping[str, Any], who: str) -> list[Any]:
    """What is offered under the wanted names; all where none is wanted.

    Raises:
        ToolError: a wanted one is not offered, or nothing is.
    """
    if not offered:
        raise ToolError(f"{who} offers no tools; give one that does, or leave it out")
    for name in wanted:
        if name not in offered:
            raise ToolError(f"{who} offers no {name!r}; it offers: {', '.join(offered)}")
    return [offered[name] for name in wanted or offered]


def _arguments(parameters: Mapping[str, Any]) -> type[BaseModel]:
    """A model of the properties of a JSON schema; its fields have names of their own, since properties have any."""
    required = parameters.get("required") or ()
    fields: dict[str, Any] = {
        f"argument_{index}": (Any, Field(... if name in required else None, alias=name))
        for index, name in enumerate(parameters.get("properties", ()))
    }
    unlisted = {"$ref", "anyOf", "oneOf", "allOf", "patternProperties"} & parameters.keys()
    more = parameters.get("additionalProperties", "properties" not in parameters) or unlisted
    return create_model("Arguments", __config__=ConfigDict(extra="allow" if more else "forbid"), **fields)
