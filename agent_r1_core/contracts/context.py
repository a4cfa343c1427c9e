"""ContextStrategy: what the policy reads next, when an episode grows long.

After every step that the environment answered, a strategy chooses the messages that the policy reads before it acts
again: all of them, or fewer. Chosen messages that extend what the policy read before continue its segment; others open
a new one. A strategy may also ask the policy itself for a summary, which is sampled and trained like any action.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.component import Component

if TYPE_CHECKING:
    from agent_r1_core.contracts.env import EnvConfig
    from agent_r1_core.trajectory import Message


@dataclass(frozen=True)
class Exchange:
    """An action, and the messages with which the environment answered it."""

    action: Message
    answer: tuple[Message, ...]


@dataclass(frozen=True)
class History:
    """The conversation that the policy would read if nothing were left out.

    A message that stays is returned as the very object that stands here. Text in other messages is data, whoever wrote
    it.
    """

    opening: tuple[Message, ...]
    """The first observation: system prompt and task. It always stays."""
    notes: tuple[Message, ...]
    """What earlier choices put between the opening and the actions: a summary, for example."""
    exchanges: tuple[Exchange, ...]
    """The actions that are in the context, each with its answer; the policy has not read the last answer yet."""
    max_tokens: int
    """`env.max_tokens`: the context must be shorter, so that the policy can act."""
    count: Callable[[Sequence[Message]], Awaitable[int]]
    """Tokens of the context, if the policy read these messages next."""

    @property
    def messages(self) -> list[Message]:
        """All of it."""
        return [*self.opening, *self.notes, *_spoken(self.exchanges)]

    def last(self, turns: int) -> list[Message]:
        """The opening, the notes, and the last `turns` actions with their answers."""
        kept = self.exchanges[max(0, len(self.exchanges) - turns) :]
        return [*self.opening, *self.notes, *_spoken(kept)]


@dataclass(frozen=True)
class SummaryRequest:
    """Asks the policy to sum up the whole history; it then goes on from the opening and its summary alone."""

    prompt: str
    """The user's message that asks for it."""
    heading: str
    """Stands before the summary, in the user's message that holds it."""
    max_tokens: int
    """Most tokens of the summary; a longer one is cut, and used as it is."""
    keep_thinking: bool = False
    """Whether the summary's thinking is read on, too."""


class ContextStrategy(Component):
    """Chooses what the policy reads; one instance serves all episodes, so it keeps no state."""

    async def next_context(self, history: History) -> Sequence[Message] | SummaryRequest:
        """The messages that the policy reads next, or the request for a summary of all of them.

        Messages begin with the opening, end with something to answer, and hold no tool's answer without the action that
        asked for it. An episode whose context does not fit is truncated; one whose strategy raises has failed.
        """
        raise TypeError(f"context strategy {type(self).__name__} defines no next_context(history); add one")

    @classmethod
    def conflicts(cls, config: Any, env: EnvConfig) -> dict[str, str]:
        """Options that cannot work under the environment's budgets: name -> why and what to do, as in "must be ..."."""
        return {}


def _spoken(exchanges: Sequence[Exchange]) -> list[Message]:
    return [message for exchange in exchanges for message in (exchange.action, *exchange.answer)]
