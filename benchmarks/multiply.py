"""Plugin of the comparison with TRL: the tool `multiply`, its questions and their reward, as on the peer's side."""

from __future__ import annotations

import asyncio
from typing import Any

from peer_trl import multiply
from pydantic import Field

from agent_r1_core import ComponentConfig, RewardFn, RewardSpec, Task, TaskSource, TaskSpec, Tool, ToolSpec, hookimpl
from agent_r1_core.contracts.tool import ToolArguments

AGENT_R1_PLUGIN_API = 1


class Multiply(Tool):
    """Multiplies two integers."""

    class Config(ComponentConfig):
        latency: float = Field(0.0, ge=0)
        """Seconds that a call takes."""

    class Arguments(ToolArguments):
        a: int
        b: int

    def schema(self) -> dict[str, Any]:
        """The schema that transformers makes of the peer's function, so that both prompts are equal token by token."""
        from transformers.utils import get_json_schema

        return dict(get_json_schema(multiply))

    async def run(self, arguments: Any, context: Any) -> int:
        if self.config.latency:
            await asyncio.sleep(self.config.latency)
        return int(arguments.a * arguments.b)


class Products(TaskSource):
    """ "What is a * b?" for digits from 1 to 9; 80 of the 81, so that every step has as many episodes."""

    def load(self) -> list[Task]:
        pairs = [(a, b) for a in range(1, 10) for b in range(1, 10)][:80]
        return [Task(f"{a}x{b}", f"What is {a} * {b}?", (str(a * b),)) for a, b in pairs]


class Correct(RewardFn):
    """1 if the last reply is the product."""

    def score(self, trajectory: Any) -> float:
        """Compare the stripped texts, as the peer does."""
        return float(trajectory.answer is not None and trajectory.answer.strip() == trajectory.task.answers[0])


@hookimpl
def register_tools() -> list[ToolSpec]:
    return [ToolSpec("multiply", ":Multiply", "multiplies two integers")]


@hookimpl
def register_tasks() -> list[TaskSpec]:
    return [TaskSpec("products", ":Products", "products of two digits")]


@hookimpl
def register_rewards() -> list[RewardSpec]:
    return [RewardSpec("correct", ":Correct", "1 where the last reply is the product")]
