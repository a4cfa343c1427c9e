"""Declares the tool formats `hermes`, `native` and `search_tags`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import ToolFormatSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tool_formats() -> Iterable[ToolFormatSpec]:
    return [
        ToolFormatSpec(
            "hermes",
            "agent_r1_tool_formats.hermes:Hermes",
            "JSON calls in <tool_call> tags, as Hermes and Qwen models write them",
        ),
        ToolFormatSpec(
            "native",
            "agent_r1_tool_formats.native:Native",
            "Calls as the model's own templates write and read them; hermes for a model without a response template",
        ),
        ToolFormatSpec(
            "search_tags",
            "agent_r1_tool_formats.search_tags:SearchTags",
            "One text argument for one tool: <search>...</search> and <information>, as in Search-R1",
        ),
    ]
