"""Turns what authors' functions return and raise into text, for the model and for the person who runs them."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from agent_r1_core.chat import clip_text
from agent_r1_core.contracts.tool import Tool
from agent_r1_core.errors import ToolError, message_of
from agent_r1_core.tools.plain import Unfit, plain

LONGEST = 100_000
"""Most characters kept of any result, whatever part of it the environment then shows."""

NO_RESULT = "(no result)"
"""What the model reads where a tool returned None."""


def to_text(value: Any) -> str:
    """Text as it is, bytes decoded with replacement, None as `NO_RESULT`, else JSON; runs the author's code.

    Raises:
        Unfit: it is too much, or cannot be JSON.
    """
    if isinstance(value, bytes | bytearray):
        text = b"".join((value,)).decode("utf-8", "replace")
    elif value is None:
        text = NO_RESULT
    elif isinstance(value, str):
        text = str.__str__(value)
    else:
        text = json.dumps(plain(value), ensure_ascii=False)
    return clean_text(text)


def clean_text(text: str) -> str:
    """The text, clipped to `LONGEST` characters, without surrogates."""
    return clip_text(text, LONGEST).encode("utf-8", "replace").decode("utf-8")


def error_text(tool: str, error: BaseException) -> str:
    """One sentence for the model: a ToolError's own, otherwise what failed and how; runs the author's code."""
    if isinstance(error, ToolError):
        return f"Error: {clip_text(message_of(error), 500)}"
    if isinstance(error, Unfit):
        return f"Error: {tool} {error}."
    text = clip_text(" ".join(message_of(error).split()), 200)
    return f"Error: {tool} failed with {type(error).__name__}{': ' + text if text else ''}."


def facts_of(tool: Tool) -> dict[str, Any] | None:
    """What an opened tool says about itself for reports; None if it says nothing."""
    try:
        facts = tool.describe()
        return None if facts is None else dict(json.loads(json.dumps(plain(facts))))
    except BaseException as error:
        return {"error": f"describe() failed with {type(error).__name__}"}


def argument_error(tool: str, error: ValidationError) -> str:
    """One sentence that names each wrong argument."""
    complaints = []
    for item in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in item["loc"]) or "arguments"
        complaint = "is no argument" if item["type"] == "extra_forbidden" else _lower(item["msg"])
        complaints.append(f"{clip_text(where, 40)}: {complaint}")
    return f"Error: wrong arguments for {tool}: {clip_text('; '.join(complaints), 300)}."


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
