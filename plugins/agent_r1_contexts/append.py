"""The context strategy `append`: the policy reads everything."""

from __future__ import annotations

from collections.abc import Sequence

from agent_r1_core import ContextStrategy, History, Message


class Append(ContextStrategy):
    """Nothing is left out: an episode is one segment, and is truncated where it exceeds `env.max_tokens`."""

    async def next_context(self, history: History) -> Sequence[Message]:
        """All messages."""
        return history.messages
