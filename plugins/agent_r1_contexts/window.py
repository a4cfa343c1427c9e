"""The context strategy `window`: the policy reads the task and the last turns."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from agent_r1_core import ComponentConfig, ContextStrategy, History, Message


class WindowConfig(ComponentConfig):
    """Options of `window`."""

    turns: int = Field(2, ge=1)
    """Most turns that stay: actions, each with its answer. Fewer stay where they do not fit into `env.max_tokens`."""


class Window(ContextStrategy):
    """The first observation and the last `turns` actions with their answers; older ones go, whole turns at a time.

    Until a turn goes, the context grows as with `append`. From then on every step has a segment of its own, in which
    the turns that stayed are read again and not trained again.
    """

    Config = WindowConfig

    async def next_context(self, history: History) -> Sequence[Message]:
        """As many of the last turns as the window holds and the budget allows, at least one."""
        for turns in range(min(self.config.turns, len(history.exchanges)), 1, -1):
            kept = history.last(turns)
            if await history.count(kept) < history.max_tokens:
                return kept
        return history.last(1)
