"""The format of Hermes and Qwen models: any number of `<tool_call>` JSON `</tool_call>` per action.

Calls inside `<think>` blocks are thoughts, not calls.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_r1_core import Markup, ParsedAction, ToolCall, ToolFormat, describe_schema
from agent_r1_core.chat import split_tagged, without_thinking

_SYNTAX = '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'


class Hermes(ToolFormat):
    """JSON calls in `<tool_call>` tags."""

    def system_prompt(self, schemas: Sequence[dict[str, Any]], answer: str) -> str:
        """How to call and how to answer; the template or `describe_tools` describes the tools themselves."""
        if not schemas:
            return answer
        return (
            Markup(
                "Solve the task step by step with the help of the tools. Whenever you need something that you do not "
                f"know, call a tool like this and wait for its result:\n{_SYNTAX}\nYou may call tools several times. "
            )
            + answer
        )

    def describe_tools(self, schemas: Sequence[dict[str, Any]]) -> str:
        """The tools, described as in Qwen2.5's own template."""
        signatures = "\n".join(f'{{"type": "function", "function": {describe_schema(schema)}}}' for schema in schemas)
        return (
            "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
            "You are provided with function signatures within <tools></tools> XML tags:\n"
            f"<tools>\n{signatures}\n</tools>\n\n"
            "For each function call, return a json object with function name and arguments within "
            f"<tool_call></tool_call> XML tags:\n{_SYNTAX}"
        )

    def parse(self, text: str) -> ParsedAction:
        """The calls in order, and a sentence for each malformed one."""
        bodies, rest = split_tagged(without_thinking(text, "tool_call"), "tool_call")
        parsed = ParsedAction(text=rest.strip())
        for call in map(_read, bodies):
            if isinstance(call, ToolCall):
                parsed.calls.append(call)
            else:
                parsed.errors.append(call)
        if "<tool_call>" in rest:
            parsed.errors.append(Markup("a tool call is not closed; end it with </tool_call>"))
        elif "</tool_call>" in rest:
            parsed.errors.append(Markup("a tool call is not opened; begin it with <tool_call>"))
        return parsed

    def render_call(self, call: ToolCall) -> str:
        """The call as Qwen models write it."""
        body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
        return f"<tool_call>\n{body}\n</tool_call>"


def _read(body: str) -> ToolCall | str:
    """The call in a tag's JSON, or the sentence that says what is wrong with it."""
    try:
        return read_call(json.loads(body, parse_constant=_no_json))
    except (ValueError, RecursionError):
        return 'a tool call is not valid JSON; write {"name": ..., "arguments": {...}}'


def _no_json(name: str) -> Any:
    """Python's reader takes NaN and Infinity, which JSON has not."""
    raise ValueError(name)


def read_call(value: Any) -> ToolCall | str:
    """The call that a JSON value is, or the sentence that says what is wrong with it."""
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name:
        return 'a tool call names no tool; write {"name": ..., "arguments": {...}}'
    arguments = value.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, parse_constant=_no_json)
        except (ValueError, RecursionError):
            arguments = None
    if not isinstance(arguments, dict):
        return f'the call of {name[:40]} has no arguments object; write "arguments": {{...}}'
    return ToolCall(name, arguments)
