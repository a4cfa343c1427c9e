"""Conversation: the messages of one episode as token ids, exact and incremental (LAW 1).

Only new messages become ids. The text so far is remembered as the template and the policy wrote it; a new rendering
that begins with it adds its rest, and one that does not (the template dropped earlier thinking, or trimmed an action)
opens a new segment, which the engine then really sees; so does an environment that begins the conversation anew. Ids
are never decoded and encoded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_r1_core.chat.tokenizer import ChatTokenizer
from agent_r1_core.trajectory import Message, Segment


class Conversation:
    """Grows by observations and actions in turn."""

    def __init__(self, tokenizer: ChatTokenizer, schemas: Sequence[dict[str, Any]] = (), tools_text: str = "") -> None:
        """Begin without messages.

        Args:
            tokenizer: of the model that acts.
            schemas: function schemas for the template's `tools`.
            tools_text: describes the same tools; it joins the system message where the template ignores `tools`.
        """
        self.segments: list[Segment] = []
        self._tokenizer = tokenizer
        self._schemas = list(schemas)
        self._tools_text = tools_text
        self._messages: list[Message] = []
        self._known: tuple[str, ...] = ()
        """Texts that a rendering may begin with to be an extension: all of the last segment, or all of it but the
        end-of-turn token (a policy may close with another one than the template writes)."""

    @property
    def context(self) -> list[int]:
        """Ids that the engine must continue: those of the current segment."""
        return list(self.segments[-1].ids) if self.segments else []

    def observe(self, messages: Sequence[Message], limit: int | None = None, new_context: bool = False) -> bool:
        """Append messages and the generation prompt; ids that close a cut action come first, with mask 0.

        Args:
            messages: what is new to the policy.
            limit: ids that the context may have.
            new_context: forget the conversation so far; it begins anew with these messages, in a new segment.

        Returns:
            False, with nothing changed, where the context would be longer than `limit` ids.

        Raises:
            ModelError: the template refuses the conversation.
        """
        return self._append(messages, limit, new_context, generation_prompt=True, may_open=True)

    def act(self, ids: Sequence[int], logprobs: Sequence[float]) -> tuple[int, int, int, str]:
        """Append an action as it was sampled.

        Returns:
            Its segment's index, its span in that segment (start, stop), and its text without the end-of-turn token.
        """
        start, stop = self.segments[-1].append_action(ids, logprobs)
        closed = bool(ids) and ids[-1] in self._tokenizer.eos_ids
        text = self._tokenizer.decode(ids[:-1] if closed else ids)
        closing = self._tokenizer.decode(ids[-1:]) if closed else ""
        before = self._known[0]
        self._known = (before + text + closing, before + text)
        self._messages.append({"role": "assistant", "content": text})
        return len(self.segments) - 1, start, stop, text

    def close_with(
        self,
        messages: Sequence[Message],
        limit: int | None = None,
        continues: bool = False,
        new_context: bool = False,
    ) -> bool:
        """Append messages that follow the last action.

        Args:
            messages: what the environment said last.
            limit: ids that the segment may have.
            continues: the world goes on (a bootstrap follows): end with the generation prompt, where values are read.
            new_context: it goes on without what was before: the messages make a segment without action, which nothing
                but the bootstrap reads.

        Returns:
            False, with nothing changed, where they do not fit, or do not follow what was before.
        """
        return self._append(messages, limit, new_context, continues, may_open=new_context and continues)

    def _append(
        self, messages: Sequence[Message], limit: int | None, new_context: bool, generation_prompt: bool, may_open: bool
    ) -> bool:
        every = list(messages) if new_context else [*self._messages, *messages]
        rendered = self._tokenizer.template.render(every, self._schemas, self._tools_text, generation_prompt)
        known = None if new_context else next((text for text in self._known if rendered.startswith(text)), None)
        if known is None and not may_open:
            return False
        ids = self._tokenizer.encode(rendered[len(known or "") :])
        before = len(self.segments[-1].ids) if known is not None else 0
        if limit is not None and before + len(ids) > limit:
            return False
        if known is None:
            self.segments.append(Segment())
        self.segments[-1].append_context(ids)
        self._messages = every
        self._known = (rendered,)
        return True
