"""Answer: what a tool call gave, as text and numbers. Reading it runs none of the author's code."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from agent_r1_core.contracts.tool import Tool, ToolContext
from agent_r1_core.errors import ToolError
from agent_r1_core.tools.plain import plain
from agent_r1_core.tools.reward_bounds import number_of
from agent_r1_core.tools.wording import argument_error, error_text, to_text

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """The answer to a call, for the model and for the counts."""

    text: str
    error: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The tool's own metrics of this call."""
    reward: float = 0.0
    """What the tool gave the call; not yet checked against its range."""

    @classmethod
    def of(cls, tool: Tool, value: Any, context: ToolContext) -> Answer:
        """The answer of a tool that returned `value`; runs the author's code, which may hang."""
        try:
            return cls(to_text(value), False, finite_numbers(tool.name, context), _earned(context))
        except BaseException as error:
            return cls.of_error(tool, error, context)

    @classmethod
    def of_error(cls, tool: Tool, error: BaseException, context: ToolContext) -> Answer:
        """The answer of a tool that raised; runs the author's code, which may hang. Only a ToolError keeps the reward:
        the tool meant it."""
        reward = _earned(context) if isinstance(error, ToolError) else 0.0
        return cls(error_text(tool.name, error), True, finite_numbers(tool.name, context), reward)


def call_tool(tool: Tool, given: Any, context: ToolContext) -> Answer | Awaitable[Any]:
    """Validate a copy of the arguments and call the tool; raises nothing.

    The copy keeps what the model wrote for the trajectory, whatever the tool does to its arguments.
    """
    try:
        try:
            arguments = tool.Arguments.model_validate(deepcopy(given))
        except ValidationError as error:
            return Answer(argument_error(tool.name, error), error=True)
        value = tool.run(arguments, context)
        return value if inspect.isawaitable(value) else Answer.of(tool, value, context)
    except BaseException as error:
        return Answer.of_error(tool, error, context)


def finite_numbers(tool: str, context: ToolContext) -> dict[str, float]:
    """The finite numbers among the metrics that a call recorded; logs a warning about anything else."""
    numbers: dict[str, float] = {}
    try:
        for name, value in plain(context.metrics).items():
            number = number_of(value)
            if number is not None and math.isfinite(number):
                numbers[str(name)] = number
            else:
                _LOG.warning("tool %s recorded the metric %s as %.80r, which is not a finite number", tool, name, value)
    except BaseException as error:
        _LOG.warning("the metrics that tool %s recorded cannot be read: %s", tool, type(error).__name__)
    return numbers


def _earned(context: ToolContext) -> float:
    """The sum of the rewards that a call was given; NaN, which no range holds, where they are no numbers."""
    rewards = [number_of(reward) for reward in plain(context.rewards)]
    return sum(math.nan if reward is None else reward for reward in rewards)
