"""The context strategy `summary`: where the context grows long, the policy sums it up and goes on from its summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from agent_r1_core import ComponentConfig, ContextStrategy, EnvConfig, History, Message, SummaryRequest

PROMPT = (
    "Your context will be cleared. Write down everything that you need to finish the task: what you know, what you "
    "have tried, and what to do next."
)
HEADING = "Your notes on the work so far:"


class SummaryConfig(ComponentConfig):
    """Options of `summary`."""

    max_tokens: int | None = Field(None, ge=1)
    """A longer context is summed up; null: half of `env.max_tokens`. The rest of `env.max_tokens` must hold the last
    action and its answer, the prompt for the summary, and the summary."""
    turns: int | None = Field(None, ge=1)
    """After so many turns the context is summed up, however short it is; null: its length alone decides."""
    summary_tokens: int = Field(128, ge=1)
    """Most tokens of a summary, whatever `engine.max_new_tokens` says; a longer one is cut and used as it is."""
    keep_thinking: bool = False
    """Whether the policy reads the thinking of its summary, too."""
    prompt: str = Field(PROMPT, min_length=1)
    """Asks for the summary, as the user."""
    heading: str = HEADING
    """Stands before the summary in the message that the policy goes on from."""


class Summary(ContextStrategy):
    """The policy reads everything until it is too much; then it reads the first observation and its own summary.

    The summary is an action of its own turn: sampled with its log-probs, credited as the algorithm credits any action,
    answered by no environment and scored by no process reward.
    """

    Config = SummaryConfig

    async def next_context(self, history: History) -> Sequence[Message] | SummaryRequest:
        """Everything, or the request for a summary of it."""
        if await self._is_long(history):
            config = self.config
            return SummaryRequest(config.prompt, config.heading, config.summary_tokens, config.keep_thinking)
        return history.messages

    @classmethod
    def conflicts(cls, config: Any, env: EnvConfig) -> dict[str, str]:
        """A threshold or a number of turns that no episode passes, and a summary that does not fit."""
        limit, found = _limit(config, env.max_tokens), {}
        if limit >= env.max_tokens:
            found["max_tokens"] = f"must be below env.max_tokens={env.max_tokens}, not {limit}; change one of them"
        elif config.summary_tokens >= env.max_tokens - limit:
            found["summary_tokens"] = (
                f"must be below {env.max_tokens - limit}, what env.max_tokens={env.max_tokens} leaves above a context "
                f"of {limit} tokens, not {config.summary_tokens}; change one of them"
            )
        if config.turns is not None and config.turns >= env.max_turns:
            found["turns"] = f"must be below env.max_turns={env.max_turns}, not {config.turns}; change one of them"
        return found

    async def _is_long(self, history: History) -> bool:
        turns = self.config.turns
        if turns is not None and len(history.exchanges) >= turns:
            return True
        return await history.count(history.messages) > _limit(self.config, history.max_tokens)


def _limit(config: SummaryConfig, max_tokens: int) -> int:
    return max_tokens // 2 if config.max_tokens is None else config.max_tokens
