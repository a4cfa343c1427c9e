"""The tool `calculator`: an arithmetic expression in, its value as text out."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from agent_r1_calculator.evaluator import evaluate
from agent_r1_core import ComponentConfig, Tool, ToolArguments, ToolContext


class Calculator(Tool):
    """Evaluates an arithmetic expression such as `(1,234 + 6) * 25%` or `sqrt(2)^3` and returns the number."""

    class Config(ComponentConfig):
        """Options of the calculator."""

        most_numbers: int | None = Field(None, ge=2)
        """Most numbers in an expression; null: any. With 2 a longer sum takes several calls, each with the result of
        the one before."""

    class Arguments(ToolArguments):
        expression: str = Field(description="The expression, e.g. 12 * (3 + 4)")

    def run(self, arguments: Any, context: ToolContext) -> str:
        """The value as text: whole numbers plain, others with up to 12 significant digits.

        Raises:
            ToolError: the expression cannot be read, has too many numbers, or its value is undefined or too large.
        """
        return format_number(evaluate(arguments.expression, self.config.most_numbers))


def format_number(value: int | float) -> str:
    """`1235`, `0.5`, `1.5e-09`; a whole float that is exact prints as an integer."""
    if isinstance(value, float) and (value.is_integer() and abs(value) < 1e15):
        return str(int(value))
    return str(value) if isinstance(value, int) else f"{value:.12g}"
