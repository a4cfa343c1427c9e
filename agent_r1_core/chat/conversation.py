"""Conversation: the messages of one episode as token ids, exact and incremental (LAW 1).

Only new messages become ids. The text so far is kept as the template and the policy wrote it. If a new rendering begins
with it, only the rest is encoded. If not (the template dropped earlier thinking, or trimmed an action; the conversation
was rewritten), or if the environment begins it anew, a new segment opens, which the engine then really sees. Ids are
never decoded and encoded again.

A conversation goes on from its last action, or from an earlier one: if other messages follow that already, a segment
opens with the very ids up to there, which are context now.

Control tokens in a message are ordinary text, unless its author marked them (`Markup`). Where a new segment repeats an
earlier action, the control tokens that the policy sampled as such are control ids again; those that it spelled out in
other ids, as a quotation of a tool's result may, are not.

A template may rewrite text so that it spells a control token only then: in lower case, without line breaks. Where a
message does not stand in the rendering as it was given, the control ids are counted again with its text in single
characters; if they differ, that is the text that the policy reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent_r1_core.chat.text import opened_thought
from agent_r1_core.chat.tokenizer import ChatTokenizer
from agent_r1_core.contracts.markup import Markup
from agent_r1_core.trajectory import Message, Segment

_QUICK_CHARACTERS = 20_000
_Tools = tuple[Sequence[dict[str, Any]], str]
"""Function schemas for the template, and the description of tools where it gets or shows none."""


@dataclass(frozen=True)
class _Place:
    """What a conversation holds at some place, behind an action or before one; nothing of it is changed later."""

    messages: Sequence[Message] = ()
    """Protected: control tokens of data are cut apart."""
    given: Sequence[Message] = ()
    """The same messages as they were given; our own copies, since a rewrite finds a message by its identity."""
    tools: _Tools = ((), "")
    prefixes: tuple[str, ...] = ()
    """A rendering that begins with one of these extends the segment: its whole text, or all but its end-of-turn token
    (a policy may close with another token than the template writes)."""
    segment: int = -1
    stop: int = 0
    """Ids of the segment up to here."""


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
        self._at = _Place(tools=(list(schemas), tools_text))
        self._behind: list[_Place] = []
        """Each action."""
        self.spoken = ""
        """The last action's text; control tokens that the policy only spelled, in other ids, are cut in two."""
        self.repeated = Markup()
        """The last action as the content of a message that repeats it, with the thought that the generation prompt
        opened; the control tokens that the policy sampled are its markup."""
        self.opened = ""
        """The `<think>` that ended the last action's prompt, white space included; empty if there was none."""
        self._undo: list[tuple[_Place, int, int]] = []
        """Where the conversation was before each observation, and of its segment the number and the ids then."""

    @property
    def context(self) -> list[int]:
        """The ids that the engine must continue: those of the current segment."""
        return list(self.segments[self._at.segment].ids) if self.segments else []

    @property
    def messages(self) -> list[Message]:
        """The conversation as it was given, actions as text; `rewrite` and `count` know these very objects again."""
        return list(self._at.given)

    def is_quick(self, messages: Sequence[Message]) -> bool:
        """Whether appending these messages takes so little time that it need not leave the event loop."""
        characters = sum(len(message["content"]) for message in [*self._at.messages, *messages])
        return characters <= _QUICK_CHARACTERS and self._tokenizer.template.is_quick

    def observe(
        self,
        messages: Sequence[Message],
        limit: int | None = None,
        new_context: bool = False,
        after: int | None = None,
        tools: tuple[Sequence[dict[str, Any]], str] | None = None,
    ) -> bool:
        """Append messages and the generation prompt; ids that close a cut action come first, with mask 0.

        Args:
            messages: what is new to the policy.
            limit: most ids in the context.
            new_context: drop the conversation so far and begin anew with these messages, in a new segment.
            after: go on from this action, counted from 0; None: from where the conversation is.
            tools: schemas and text as for the constructor, from now on; None: the same as there.

        Returns:
            False, with nothing changed, if the context would be longer than `limit` ids.

        Raises:
            ModelError: the template refuses the conversation.
        """
        base = self._at if after is None else self._behind[after]
        base = base if tools is None else replace(base, tools=tools)
        return self._append(base, messages, limit, new_context, generation_prompt=True, may_open=True)

    def withdraw(self) -> None:
        """Take back the last observation, and the action that answers it, if there is one."""
        if self._behind and self._behind[-1] is self._at:
            self._behind.pop()
        self._at, number, stop = self._undo.pop()
        segment = self.segments[number]
        del segment.ids[stop:], segment.mask[stop:], segment.logprobs[stop:]
        if not segment.ids:
            self.segments.pop()

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
        protected = self._protected(messages)
        return self._go_on(self._at, messages, protected, limit, False, generation_prompt=True, may_open=True)

    def count(self, messages: Sequence[Message], limit: int | None = None) -> int:
        """Ids of the context after `rewrite(messages)`; more than `limit` may be counted by their characters alone."""
        fewest = self._fewest(messages)
        if limit is not None and fewest > limit:
            return fewest
        rendering = self._render(self._at, self._protected(messages))
        return rendering.before + len(rendering.ids)

    def act(self, ids: Sequence[int], logprobs: Sequence[float]) -> tuple[int, int, int, str]:
        """Append an action as it was sampled.

        Returns:
            Its segment's index, its span in that segment (start, stop), and its text without the end-of-turn token.
        """
        at = self._at
        start, stop = self.segments[at.segment].append_action(ids, logprobs)
        closed = bool(ids) and ids[-1] in self._tokenizer.eos_ids
        spoken = ids[:-1] if closed else ids
        text = self._tokenizer.decode(spoken)
        closing = self._tokenizer.decode(ids[-1:]) if closed else ""
        control = self._tokenizer.control
        sampled = control.sampled(spoken, text, self._tokenizer.decode)
        content = control.protect(sampled)
        before, self.spoken = at.prefixes[0], content
        self.opened = opened_thought(before)
        repeatable = self._repeatable(content)
        self.repeated = sampled if repeatable == content else control.marked(repeatable)
        repeated: Message = {"role": "assistant", "content": repeatable}
        said: Message = {"role": "assistant", "content": text}
        prefixes = (before + content + closing, before + content)
        self._at = _Place([*at.messages, repeated], [*at.given, said], at.tools, prefixes, at.segment, stop)
        self._behind.append(self._at)
        return at.segment, start, stop, text

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
        return self._append(self._at, messages, limit, new_context, continues, may_open=new_context and continues)

    def _repeatable(self, content: str) -> str:
        """An action as a message that the template writes again as it was: with the thought that the generation prompt
        opened, and without the channel that the template names itself."""
        opening, said = self._tokenizer.opening, self.opened + content
        return said.rpartition(opening)[2] if opening else said

    def _append(
        self,
        base: _Place,
        messages: Sequence[Message],
        limit: int | None,
        new_context: bool,
        generation_prompt: bool,
        may_open: bool,
    ) -> bool:
        if limit is not None and self._fewest(messages) > limit:
            return False
        protected = [self._tokenizer.control.protect_all(message) for message in messages]
        conversation = protected if new_context else [*base.messages, *protected]
        given = messages if new_context else [*base.given, *messages]
        return self._go_on(base, given, conversation, limit, new_context, generation_prompt, may_open)

    def _go_on(
        self,
        base: _Place,
        given: Sequence[Message],
        conversation: list[Message],
        limit: int | None,
        new_context: bool,
        generation_prompt: bool,
        may_open: bool,
    ) -> bool:
        rendering = self._render(base, conversation, new_context, generation_prompt)
        if rendering.opens and not may_open:
            return False
        if limit is not None and rendering.before + len(rendering.ids) > limit:
            return False
        number, length = base.segment, base.stop
        if rendering.opens or len(self.segments[number].ids) > length:
            repeated = [] if rendering.opens else self.segments[number].ids[:length]
            number, length = len(self.segments), 0
            self.segments.append(Segment())
            self.segments[number].append_context(repeated)
        self.segments[number].append_context(rendering.ids)
        self._undo.append((self._at, number, length))
        own, stop = [message.copy() for message in given], len(self.segments[number].ids)
        self._at = _Place(rendering.messages, own, rendering.tools, (rendering.text,), number, stop)
        return True

    def _render(
        self, base: _Place, messages: list[Message], new_context: bool = False, generation_prompt: bool = True
    ) -> _Rendering:
        """Render the conversation; text that the template would make into control ids is spelled out."""
        found = self._rendering(base, messages, base.tools, new_context, generation_prompt)
        control, new = self._tokenizer.control, found.text[found.start :]
        known = set() if found.opens else {id(message) for message in base.messages}
        rewritten = {id(one) for one in messages if id(one) not in known and control.is_rewritten(one, new)}
        schemas, tools_text = tools = base.tools
        if found.opens:
            told: Any = schemas if schemas and self._tokenizer.template.shows_tools else tools_text
            tools = (control.spell(schemas), control.spell(tools_text)) if control.is_rewritten(told, new) else tools
        if not rewritten and tools is base.tools:
            return found
        spelled = [control.spell(message) if id(message) in rewritten else message for message in messages]
        safe = self._rendering(base, spelled, tools, new_context, generation_prompt)
        return found if control.ids_of(safe.ids) == control.ids_of(found.ids) else safe

    def _rendering(
        self,
        base: _Place,
        messages: list[Message],
        tools: _Tools,
        new_context: bool,
        generation_prompt: bool,
    ) -> _Rendering:
        text = self._tokenizer.template.render(messages, *tools, generation_prompt)
        prefix = None if new_context else next((known for known in base.prefixes if text.startswith(known)), None)
        start = len(prefix or "")
        before = base.stop if prefix is not None else 0
        return _Rendering(messages, tools, text, start, prefix is None, before, self._tokenizer.encode(text[start:]))

    def _fewest(self, messages: Sequence[Message]) -> int:
        """Least number of ids of the messages that are new; a template may leave out older text."""
        known = {id(given) for given in self._at.given}
        return self._tokenizer.fewest_ids([message for message in messages if id(message) not in known])

    def _protected(self, messages: Sequence[Message]) -> list[Message]:
        """Messages of the conversation as they stand in it, sampled control tokens included; others as data."""
        known = {id(given): message for given, message in zip(self._at.given, self._at.messages, strict=True)}
        return [known.get(id(message)) or self._tokenizer.control.protect_all(message) for message in messages]
