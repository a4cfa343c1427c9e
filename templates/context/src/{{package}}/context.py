"""The context strategy `{{name}}`: answers of earlier turns are cut."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from agent_r1_core import ComponentConfig, ContextStrategy, History, Message

CUT = " [cut]"


class {{class}}(ContextStrategy):
    """The newest answer stays whole, and so does every action; longer answers of earlier turns are cut."""

    class Config(ComponentConfig):
        """What a recipe may set."""

        characters: int = Field(200, ge=20)
        """Most characters of an answer that is no longer the newest."""

    async def next_context(self, history: History) -> Sequence[Message]:
        """The opening, every action, and its answer."""
        chosen = [*history.opening, *history.notes]
        for exchange in history.exchanges:
            newest = exchange is history.exchanges[-1]
            chosen += [exchange.action, *(message if newest else self._cut(message) for message in exchange.answer)]
        return chosen

    def _cut(self, message: Message) -> Message:
        """The history's own message where it is short enough; a changed text stands in a new message."""
        text, limit = message["content"], self.config.characters
        return message if len(text) <= limit else {**message, "content": text[: limit - len(CUT)] + CUT}
