"""Conversation: the messages of one episode as token ids, exact and incremental (LAW 1).

Only new messages become ids. The text so far is kept as the template and the policy wrote it. If a new rendering begins
with it, only the rest is encoded. If not (the template dropped earlier thinking, or trimmed an action; the conversation
was rewritten), or if the environment begins it anew, a new segment opens, which the engine then really sees. Ids are
never decoded and encoded again.

Control tokens in a message are ordinary text, unless its author marked them (`Markup`). Where a new segment repeats an
earlier action, the control tokens that the policy sampled as such are control ids again; those that it spelled out in
other ids, as a quotation of a tool's result may, are not.

A template may rewrite text so that it spells a control token only then: in lower case, without line breaks. Where a
message does not stand in the rendering as it was given, the control ids are counted again with its text in single
characters; if they differ, that is the text that the policy reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_r1_core.chat.text import opened_thought
from agent_r1_core.chat.tokenizer import ChatTokenizer
from agent_r1_core.trajectory import Message, Segment

_QUICK_CHARACTERS = 20_000
_Tools = tuple[list[dict[str, Any]], str]
"""Function schemas for the template, and the description of tools where it gets or shows none."""


@dataclass(frozen=True)
class _Rendering:
    """A conversation as the template writes it."""

    messages: list[Message]
    tools: _Tools
    text: str
    start: int
    """Where the text begins that is new."""
    opens: bool
    """Whether it opens a segment."""
    before: int
    """Ids of the segment that it continues."""
    ids: list[int]
    """Of the new text."""


class Conversation:
    """Grows by observations and actions in turn."""

    def __init__(self, tokenizer: ChatTokenizer, schemas: Sequence[dict[str, Any]] = (), tools_text: str = "") -> None:
        """Begin without messages.

        Args:
            tokenizer: of the model that acts.
            schemas: function schemas for the template's `tools`.
            tools_text: describes the tools; it joins the system message where the template gets or shows no `tools`.
        """
        self.segments: list[Segment] = []
        self._tokenizer = tokenizer
        self._tools: _Tools = list(schemas), tools_text
        self._messages: list[Message] = []
        """Protected: control tokens of data are cut apart."""
        self._given: list[Message] = []
        """The same messages as they were given; our own copies, since a rewrite finds a message by its identity."""
        self._prefixes: tuple[str, ...] = ()
        """A rendering that begins with one of these extends the last segment: its whole text, or all but its
        end-of-turn token (a policy may close with another token than the template writes)."""

    @property
    def context(self) -> list[int]:
        """The ids that the engine must continue: those of the current segment."""
        return list(self.segments[-1].ids) if self.segments else []

    @property
    def messages(self) -> list[Message]:
        """The conversation as it was given, actions as text; `rewrite` and `count` know these very objects again."""
        return list(self._given)

    def is_quick(self, messages: Sequence[Message]) -> bool:
        """Whether appending these messages takes so little time that it need not leave the event loop."""
        characters = sum(len(message["content"]) for message in [*self._messages, *messages])
        return characters <= _QUICK_CHARACTERS and self._tokenizer.template.is_quick

    def observe(self, messages: Sequence[Message], limit: int | None = None, new_context: bool = False) -> bool:
        """Append messages and the generation prompt; ids that close a cut action come first, with mask 0.

        Args:
            messages: what is new to the policy.
            limit: most ids in the context.
            new_context: drop the conversation so far and begin anew with these messages, in a new segment.

        Returns:
            False, with nothing changed, if the context would be longer than `limit` ids.

        Raises:
            ModelError: the template refuses the conversation.
        """
        return self._append(messages, limit, new_context, generation_prompt=True, may_open=True)

    def rewrite(self, messages: Sequence[Message], limit: int | None = None) -> bool:
        """Go on with exactly these messages and the generation prompt: in the same segment if they extend it.

        Args:
            messages: those of `messages` that stay, as the very objects, and new ones, whose text is data.
            limit: most ids in the context.

        Returns:
            False, with nothing changed, if the context would be longer than `limit` ids.

        Raises:
            ModelError: the template refuses the conversation.
        """
        if limit is not None and self._fewest(messages) > limit:
            return False
        return self._go_on(messages, self._protected(messages), limit, False, generation_prompt=True, may_open=True)

    def count(self, messages: Sequence[Message], limit: int | None = None) -> int:
        """Ids of the context after `rewrite(messages)`; more than `limit` may be counted by their characters alone."""
        fewest = self._fewest(messages)
        if limit is not None and fewest > limit:
            return fewest
        rendering = self._render(self._protected(messages))
        return rendering.before + len(rendering.ids)

    def act(self, ids: Sequence[int], logprobs: Sequence[float]) -> tuple[int, int, int, str]:
        """Append an action as it was sampled.

        Returns:
            Its segment's index, its span in that segment (start, stop), and its text without the end-of-turn token.
        """
        start, stop = self.segments[-1].append_action(ids, logprobs)
        closed = bool(ids) and ids[-1] in self._tokenizer.eos_ids
        spoken = ids[:-1] if closed else ids
        text = self._tokenizer.decode(spoken)
        closing = self._tokenizer.decode(ids[-1:]) if closed else ""
        control = self._tokenizer.control
        content = control.protect(control.sampled(spoken, text, self._tokenizer.decode))
        before = self._prefixes[0]
        self._prefixes = (before + content + closing, before + content)
        self._messages.append({"role": "assistant", "content": self._repeatable(before, content)})
        self._given.append({"role": "assistant", "content": text})
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
            limit: most ids in the segment.
            continues: the environment was cut (a bootstrap follows): end with the generation prompt, where the critic
                reads the value.
            new_context: the messages begin a new context: they make a segment without action, which only the bootstrap
                reads.

        Returns:
            False, with nothing changed, if they do not fit or do not extend the conversation.
        """
        return self._append(messages, limit, new_context, continues, may_open=new_context and continues)

    def _repeatable(self, before: str, content: str) -> str:
        """An action as a message that the template writes again as it was: with the thought that the generation prompt
        opened, and without the channel that the template names itself."""
        opening, said = self._tokenizer.opening, opened_thought(before) + content
        return said.rpartition(opening)[2] if opening else said

    def _append(
        self, messages: Sequence[Message], limit: int | None, new_context: bool, generation_prompt: bool, may_open: bool
    ) -> bool:
        if limit is not None and self._fewest(messages) > limit:
            return False
        protected = [self._tokenizer.control.protect_all(message) for message in messages]
        conversation = protected if new_context else [*self._messages, *protected]
        given = messages if new_context else [*self._given, *messages]
        return self._go_on(given, conversation, limit, new_context, generation_prompt, may_open)

    def _go_on(
        self,
        given: Sequence[Message],
        conversation: list[Message],
        limit: int | None,
        new_context: bool,
        generation_prompt: bool,
        may_open: bool,
    ) -> bool:
        rendering = self._render(conversation, new_context, generation_prompt)
        if rendering.opens and not may_open:
            return False
        if limit is not None and rendering.before + len(rendering.ids) > limit:
            return False
        if rendering.opens:
            self.segments.append(Segment())
        self.segments[-1].append_context(rendering.ids)
        self._messages, self._given = rendering.messages, [message.copy() for message in given]
        self._tools, self._prefixes = rendering.tools, (rendering.text,)
        return True

    def _render(self, messages: list[Message], new_context: bool = False, generation_prompt: bool = True) -> _Rendering:
        """Render the conversation; text that the template would make into control ids is spelled out."""
        found = self._rendering(messages, self._tools, new_context, generation_prompt)
        control, new = self._tokenizer.control, found.text[found.start :]
        known = set() if found.opens else {id(message) for message in self._messages}
        rewritten = {id(one) for one in messages if id(one) not in known and control.is_rewritten(one, new)}
        schemas, tools_text = tools = self._tools
        if found.opens:
            told: Any = schemas if schemas and self._tokenizer.template.shows_tools else tools_text
            tools = (control.spell(schemas), control.spell(tools_text)) if control.is_rewritten(told, new) else tools
        if not rewritten and tools is self._tools:
            return found
        spelled = [control.spell(message) if id(message) in rewritten else message for message in messages]
        safe = self._rendering(spelled, tools, new_context, generation_prompt)
        return found if control.ids_of(safe.ids) == control.ids_of(found.ids) else safe

    def _rendering(
        self,
        messages: list[Message],
        tools: _Tools,
        new_context: bool,
        generation_prompt: bool,
    ) -> _Rendering:
        text = self._tokenizer.template.render(messages, *tools, generation_prompt)
        prefix = None if new_context else next((known for known in self._prefixes if text.startswith(known)), None)
        start = len(prefix or "")
        before = len(self.segments[-1].ids) if prefix is not None else 0
        return _Rendering(messages, tools, text, start, prefix is None, before, self._tokenizer.encode(text[start:]))

    def _fewest(self, messages: Sequence[Message]) -> int:
        """Least number of ids of the messages that are new; a template may leave out older text."""
        known = {id(given) for given in self._given}
        return self._tokenizer.fewest_ids([message for message in messages if id(message) not in known])

    def _protected(self, messages: Sequence[Message]) -> list[Message]:
        """Messages of the conversation as they stand in it, sampled control tokens included; others as data."""
        known = {id(given): message for given, message in zip(self._given, self._messages, strict=True)}
        return [known.get(id(message)) or self._tokenizer.control.protect_all(message) for message in messages]
