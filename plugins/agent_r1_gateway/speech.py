"""What a program's messages are to the policy, and what the policy's actions are to the program."""

from __future__ import annotations

import json
import random
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from copy import copy
from itertools import groupby
from typing import Literal

from agent_r1_core import Action, Markup, Message, ToolCall, ToolFormat, ToolResult
from agent_r1_core.chat import without_thinking
from agent_r1_core.chat.control import BREAK
from agent_r1_gateway.history import Said
from agent_r1_gateway.wire import Call, ChatMessage, ChatRequest, Reply, TokenLogprob, read_arguments

Thinking = Literal["separate", "text"]
"""Where a reply's reasoning goes: into the API's own field for it, or into the text, which every client keeps."""

_END = "</think>"
_RANDOM = random.Random()


def messages_of(messages: Sequence[ChatMessage], form: ToolFormat | None, said: Said) -> list[Message]:
    """The messages as the chat template gets them: replies of the policy as it sampled them, other calls and results as
    the tool format writes them.

    A system message behind the first one becomes a user's: few templates take it there.
    """
    written: list[Message] = []
    for role, several in groupby(messages, key=lambda message: message.role):
        if role == "tool" and form is not None:
            written += form.results([ToolResult(one.name, one.text) for one in several])
            continue
        for one in several:
            if role == "assistant":
                written.append({"role": role, "content": said.text(one) or _action(one, form)})
            elif role == "tool":
                written.append({"role": role, "name": one.name, "content": one.text})
            else:
                written.append({"role": "user" if role == "system" and written else role, "content": one.text})
    return written


def reply_of(
    action: Action,
    request: ChatRequest,
    form: ToolFormat | None,
    decode: Callable[[Sequence[int]], str],
    thinking: Thinking,
) -> Reply:
    """An action as the reply to a request. Calls are read only where it has tools; malformed ones stay text."""
    opened = "" if thinking == "text" else action.opened
    whole = opened + (action.protected or action.text)
    stops = [(start, one) for one in request.stop if (start := whole.find(one, len(opened))) >= 0]
    stop, stopped_by = min(stops, default=(len(whole), None))
    thought, said = _split(whole, thinking)
    calls: list[ToolCall] = []
    if form is not None and request.tools:
        form = copy(form)
        form.bind(request.tools)
        parsed = form.parse(said)
        calls = parsed.calls
        if calls:
            before, closed, _ = said.partition(_END)
            said = (before + closed if closed else "") + (parsed.text or "")
    if not calls:
        thought, said = _split(whole[:stop], thinking)
    tokens = zip(action.ids, action.logprobs, strict=False) if request.logprobs else ()
    return Reply(
        id=_new_id(),
        created=int(time.time()),
        text=_clean(said),
        thinking=_clean(thought),
        calls=tuple(_call(call) for call in calls),
        cut=action.cut,
        stopped_by=stopped_by,
        prompt_tokens=action.prompt_tokens,
        completion_tokens=len(action.ids),
        thinking_tokens=_thinking_tokens(action, decode) if thought else 0,
        logprobs=tuple(TokenLogprob(decode([token]), logprob) for token, logprob in tokens),
    )


def _action(message: ChatMessage, form: ToolFormat | None) -> str:
    """An assistant's message that the policy did not say, such as an example, as a policy would write it."""
    said = message.text
    if message.thinking:
        between = "\n\n" if said or not message.calls else "\n"  # another one comes before a call
        said = Markup("<think>\n") + message.thinking + Markup(f"\n</think>{between}") + said
    if form is None or not message.calls:
        return said
    calls = [_written(call, form) for call in message.calls]
    return Markup("\n").join([part for part in (said, *calls) if part])


def _written(call: Call, form: ToolFormat) -> str:
    """A call as the format writes it; its tags are markup, and what stands between them is data."""
    text = form.render_call(ToolCall(call.name, call.as_object))
    start, stop = text.find(">") + 1, text.rfind("<")
    return Markup(text, [(0, start), (stop, len(text))]) if 0 < start <= stop else text


def _split(said: str, thinking: Thinking) -> tuple[str, str]:
    """The thinking that has a field of its own, and what is said beside it."""
    if thinking == "text":
        return "", said
    before, closed, _ = said.partition(_END)
    visible = without_thinking(said)
    if not closed:
        return said[len(visible) :].removeprefix("<think>").strip() if said.startswith("<think>") else "", visible
    return before.strip().removeprefix("<think>").strip(), visible.lstrip("\n")


def _thinking_tokens(action: Action, decode: Callable[[Sequence[int]], str]) -> int:
    """The ids up to the end of the thinking; all of them where it did not end."""
    return bisect_left(range(len(action.ids)), True, key=lambda count: _END in decode(action.ids[:count]))


def _call(call: ToolCall) -> Call:
    arguments = _clean(json.dumps(call.arguments, ensure_ascii=False))
    return Call(_clean(call.name), read_arguments(arguments), f"call_{_new_id()}")


def _new_id() -> str:
    """Unique; asks the system for nothing, where this thread would wait for its turn again."""
    return f"{_RANDOM.getrandbits(96):024x}"


def _clean(text: str) -> str:
    return text.replace(BREAK, "")
