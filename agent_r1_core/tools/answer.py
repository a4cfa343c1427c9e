"""What a tool's call gave, as a ToolResult: plain data, which later readers run no author's code to read.

Making it runs the author's code, which may hang.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Awaitable
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from agent_r1_core.chat import clip_text
from agent_r1_core.contracts.tool import Tool, ToolContext
from agent_r1_core.contracts.tool_format import ToolResult
from agent_r1_core.errors import ToolError, message_of
from agent_r1_core.tools.plain import Plain, Unfit, number_of, plain

LONGEST = 100_000
"""Most characters kept of any result, whatever part of it the environment then shows."""
NO_RESULT = "(no result)"
"""What the model reads where a tool returned None."""

_LOG = logging.getLogger(__name__)


def call_tool(tool: Tool, given: Any, context: ToolContext) -> ToolResult | Awaitable[Any]:
    """Validate a copy of the arguments and call the tool; raises nothing.

    The copy keeps what the model wrote for the trajectory, whatever the tool does to its arguments.
    """
    try:
        try:
            arguments = tool.Arguments.model_validate(deepcopy(given))
        except ValidationError as error:
            return ToolResult(tool.name, argument_error(tool.name, error), error=True)
        value = tool.run(arguments, context)
        return value if inspect.isawaitable(value) else result_of(tool, value, context)
    except BaseException as error:
        return failure_of(tool, error, context)


def result_of(tool: Tool, value: Any, context: ToolContext) -> ToolResult:
    """The result of a call that returned `value`."""
    try:
        return ToolResult(tool.name, to_text(value), reward=_earned(context), metrics=finite_metrics(tool, context))
    except BaseException as error:
        return failure_of(tool, error, context)


def failure_of(tool: Tool, error: BaseException, context: ToolContext) -> ToolResult:
    """The result of a call that raised. Only a ToolError keeps the reward: the tool meant it."""
    reward = _earned(context) if isinstance(error, ToolError) else 0.0
    text = error_text(tool.name, error)
    return ToolResult(tool.name, text, error=True, reward=reward, metrics=finite_metrics(tool, context))


def finite_metrics(tool: Tool, context: ToolContext) -> dict[str, float]:
    """The finite numbers among the metrics that a call recorded; logs a warning about anything else."""
    numbers: dict[str, float] = {}
    try:
        for name, value in plain(context.metrics).items():
            number = number_of(value)
            if number is not None and math.isfinite(number):
                numbers[str(name)] = number
            else:
                _LOG.warning(
                    "tool %s recorded the metric %s as %.80r, which is not a finite number", tool.name, name, value
                )
    except BaseException as error:
        _LOG.warning("the metrics that tool %s recorded cannot be read: %s", tool.name, type(error).__name__)
    return numbers


def _earned(context: ToolContext) -> float:
    """The sum of the rewards that a call was given; NaN, which no range holds, where they are no numbers."""
    rewards = [number_of(reward) for reward in plain(context.rewards)]
    return sum(math.nan if reward is None else reward for reward in rewards)


def to_text(value: Any) -> str:
    """Text as it is, bytes decoded with replacement, None as `NO_RESULT`, else JSON.

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
        text = json.dumps(Plain(addresses=False).copy(value), ensure_ascii=False)
    return clean_text(text)


def clean_text(text: str) -> str:
    """The text, clipped to `LONGEST` characters, without surrogates."""
    return clip_text(text, LONGEST).encode("utf-8", "replace").decode("utf-8")


def error_text(tool: str, error: BaseException) -> str:
    """One sentence for the model: a ToolError's own, otherwise what failed and how."""
    if isinstance(error, ToolError):
        return f"Error: {clip_text(message_of(error), 500)}"
    if isinstance(error, Unfit):
        return f"Error: {tool} {error}."
    text = clip_text(" ".join(message_of(error).split()), 200)
    return f"Error: {tool} failed with {type(error).__name__}{': ' + text if text else ''}."


def argument_error(tool: str, error: ValidationError) -> str:
    """One sentence that names each wrong argument."""
    complaints = []
    for item in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in item["loc"]) or "arguments"
        message = item["msg"][:1].lower() + item["msg"][1:]
        complaint = "is no argument" if item["type"] == "extra_forbidden" else message
        complaints.append(f"{clip_text(where, 40)}: {complaint}")
    return f"Error: wrong arguments for {tool}: {clip_text('; '.join(complaints), 300)}."


def facts_of(tool: Tool) -> dict[str, Any] | None:
    """What an opened tool says about itself for reports; None if it says nothing."""
    try:
        facts = tool.describe()
        return None if facts is None else dict(json.loads(json.dumps(plain(facts))))
    except BaseException as error:
        return {"error": f"describe() failed with {type(error).__name__}"}
