"""EpisodeContext: what the policy of one episode reads: its conversation, and the strategy that may rewrite it.

What a strategy chooses becomes plain data: a fault is a sentence, not a crash (LAW 9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from agent_r1_core.chat import Conversation, without_thinking
from agent_r1_core.contracts.context import ContextStrategy, Exchange, History, SummaryRequest
from agent_r1_core.contracts.env import Observation
from agent_r1_core.errors import DriftError, EpisodeError, ModelError
from agent_r1_core.rollout.env_checks import message_of
from agent_r1_core.rollout.world import ToolTexts, World
from agent_r1_core.tools.plain import Plain, Unfit, is_plain, shown, stored
from agent_r1_core.trajectory import Message, Turn

_NOTHING = "(nothing)"


class EpisodeContext:
    """Shows observations to the policy. Each method returns False, with nothing changed, where they do not fit."""

    def __init__(
        self, conversation: Conversation, strategy: ContextStrategy | None, world: World, tool_texts: ToolTexts
    ) -> None:
        """Begin with an empty conversation; without a strategy the policy reads everything.

        `world` has the episode's budget, calls the strategy within its time-out, and has a thread for what takes long.
        """
        self.conversation = conversation
        self.examples: list[Message] = []
        """Stand behind the system message wherever the conversation begins."""
        self.summary: SummaryRequest | None = None
        """The summary that the policy is to write now."""
        self.shown = Observation()
        """What is new to the policy since its last action."""
        self.added: list[Message] = []
        """What of it the environment did not say: the examples, the prompt for a summary, or the summary."""
        self._strategy = strategy
        self._world = world
        self._tool_texts = tool_texts
        self._max_tokens = world.max_tokens
        self._opening: int | None = None
        """How many messages the conversation began with: the first observation, and the examples."""
        self._state_key: str | None = None
        """Of the observation that a summary is to hold."""

    async def show(self, seen: Observation) -> bool:
        """Show an observation, in the context that the strategy chooses."""
        if seen.request is not None:
            try:
                return await self._begin(seen)
            except DriftError:
                raise
            except ModelError as error:
                raise EpisodeError(str(error)) from error
        if self._strategy is None or seen.new_context or self._opening is None:
            return await self._begin(seen)
        history = self._history(seen.messages)
        choice = partial(choice_of, history=history)
        chosen = await self._world.call(self._strategy.next_context, history, convert=choice)
        if not isinstance(chosen, SummaryRequest):
            return await self._rewrite(chosen, seen)
        asked: list[Message] = [*seen.messages, {"role": "user", "content": chosen.prompt}]
        if not await self._rewrite([*self.conversation.messages, *asked], Observation(asked)):
            return False
        self.summary, self._state_key, self.added = chosen, seen.state_key, asked[-1:]
        return True

    async def hinted(self, told: Conversation, first: Observation, hint: str) -> list[int]:
        """The prompt that the first observation makes for somebody who is told a hint behind it; empty where it does
        not fit, or is no prompt. Ask before it is shown.

        Args:
            told: a conversation without messages.
        """
        if not first.messages:
            return []
        *before, last = first.messages
        behind: Message = {**last, "content": last["content"] + f"\n\n{hint}"}
        with suppress(ModelError):  # what is wrong is said when it is shown
            await self._observed(told.observe, replace(first, messages=[*before, behind]))
        return told.context

    async def preview(self, seen: Observation) -> list[int] | None:
        """What the policy will read when this observation is shown, one with a request of its own; None where it does
        not fit, or cannot be known. Changes nothing."""
        try:
            return await self._observed(self._context_after, seen) if seen.request is not None else None
        except ModelError:  # what is wrong is said when it is shown
            return None

    async def length(self, seen: Observation) -> str:
        """How many ids the policy would read with an observation that does not fit, counted within bounds."""
        most = 10 * self._max_tokens
        context = await self._observed(self._context_after, seen, most)
        return f"more than {most}" if context is None else str(len(context))

    async def go_on_from(self, request: SummaryRequest, turn: Turn) -> bool:
        """Show the opening and the summary that the policy wrote in this turn, and nothing else."""
        self.summary = None
        text = turn.text if request.keep_thinking else without_thinking(self.conversation.opened + turn.text)
        said = text.strip()
        if not said:
            turn.errors.append("the summary is empty")
        note: Message = {"role": "user", "content": f"{request.heading}\n{said or _NOTHING}"}
        opening = self.conversation.messages[: self._opening]
        if not await self._rewrite([*opening, note], Observation([note], state_key=self._state_key)):
            return False
        self.added = [note]
        return True

    async def close_with(self, last: Observation, bootstrap: bool) -> None:
        """Append what follows the last action, if it fits."""
        messages = self._behind_examples(last.messages) if last.new_context else last.messages
        close = partial(self.conversation.close_with, continues=bootstrap, new_context=last.new_context)
        await self._run(partial(close, messages, self._max_tokens), messages)

    async def _begin(self, seen: Observation) -> bool:
        first = self._opening is None
        if not await self._observed(self.conversation.observe, seen):
            return False
        if first or seen.new_context:
            self._opening = len(self._messages(seen))
        self.shown, self.added = seen, self.examples if first else []
        return True

    async def _observed(self, observe: Callable[..., Any], seen: Observation, most: int | None = None) -> Any:
        """What `Conversation.observe`, or its preview, says of an observation."""
        messages = self._messages(seen)
        tools = self._tool_texts.describe(seen.request.tools) if seen.request is not None else None
        job = partial(observe, messages, most or self._max_tokens - 1, seen.new_context, seen.continues, tools)
        return await self._run(job, messages)

    def _context_after(self, *arguments: Any) -> list[int] | None:
        """The context that `Conversation.observe` makes, which is taken back."""
        if not self.conversation.observe(*arguments):
            return None
        context = self.conversation.context
        self.conversation.withdraw()
        return context

    def _messages(self, seen: Observation) -> list[Message]:
        begins = self._opening is None or seen.new_context
        return self._behind_examples(seen.messages) if begins else seen.messages

    def _behind_examples(self, messages: list[Message]) -> list[Message]:
        """The messages that begin a conversation, with the examples behind their system message."""
        system = next((n for n, one in enumerate(messages) if one["role"] != "system"), len(messages))
        return [*messages[:system], *self.examples, *messages[system:]]

    async def _rewrite(self, messages: Sequence[Message], shown: Observation) -> bool:
        job = partial(self.conversation.rewrite, messages, self._max_tokens - 1)
        if not await self._run(job, shown.messages):
            return False
        self.shown, self.added = shown, []
        return True

    def _history(self, new: Sequence[Message]) -> History:
        given = self.conversation.messages
        notes, exchanges = list[Message](), list[Exchange]()
        for message in (*given[self._opening :], *new):
            if message["role"] == "assistant":
                exchanges.append(Exchange(message, ()))
            elif exchanges:
                exchanges[-1] = Exchange(exchanges[-1].action, (*exchanges[-1].answer, message))
            else:
                notes.append(message)
        opening = tuple(given[: self._opening])
        return History(opening, tuple(notes), tuple(exchanges), self._max_tokens, self._count)

    async def _count(self, messages: Sequence[Message]) -> int:
        return await self._run(partial(self.conversation.count, messages, self._max_tokens), messages)

    async def _run(self, job: Callable[[], Any], messages: Sequence[Message]) -> Any:
        """Render messages; in this episode's own thread where that takes long."""
        return job() if self.conversation.is_quick(messages) else await self._world.lane.run(job)


def choice_of(chosen: Any, history: History) -> list[Message] | SummaryRequest:
    """A choice as plain data, or Unfit; messages of the history stay the very objects. Runs the author's code."""
    if isinstance(chosen, SummaryRequest):
        return _request(chosen)
    if not isinstance(chosen, list | tuple):
        raise Unfit(f"returned {type(chosen).__name__}; return messages or a SummaryRequest")
    own, plain = {id(message) for message in history.messages if is_plain(message)}, Plain()
    messages = [one if id(one) in own else message_of(one, plain, "chose") for one in stored(chosen)]
    problem = _problem(messages, history)
    if problem is not None:
        raise Unfit(problem)
    return messages


def _problem(chosen: list[Message], history: History) -> str | None:
    opening = history.opening
    if len(chosen) < len(opening) or any(kept is not given for kept, given in zip(chosen, opening, strict=False)):
        return "dropped the opening, which holds the task; return history.opening first"
    if chosen[-1]["role"] == "assistant" and history.messages[-1]["role"] != "assistant":
        return "ended with an action; end with the message that answers it"
    return _orphan(chosen[len(opening) :], history)


def _request(given: SummaryRequest) -> SummaryRequest:
    plain = Plain()
    prompt, heading, most = (plain.copy(value) for value in (given.prompt, given.heading, given.max_tokens))
    if not isinstance(prompt, str) or not prompt:
        raise Unfit(f"asked for a summary with {shown(prompt)}; write what the policy should do")
    if not isinstance(heading, str):
        raise Unfit(f"gave the summary the heading {shown(heading)}; use text")
    if type(most) not in (int, bool) or most < 1:
        raise Unfit(f"gave the summary {shown(most)} tokens; use a whole number above 0")
    return SummaryRequest(prompt, heading, most, bool(given.keep_thinking))


def _orphan(chosen: list[Message], history: History) -> str | None:
    """A tool's answer that follows no action, or another one than its own."""
    asked_by = {id(message): exchange.action for exchange in history.exchanges for message in exchange.answer}
    actions = {id(exchange.action) for exchange in history.exchanges}
    speaker: Message | None = None
    for message in chosen:
        if message["role"] == "assistant":
            speaker = message
        elif message["role"] == "tool":
            action = asked_by.get(id(message), speaker)
            if speaker is None or (action is not speaker and id(speaker) in actions):
                return "kept a tool's answer without the action that asked for it; keep both or neither"
    return None
