"""What a program's messages are to the policy, and what the policy's actions are to the program."""

from __future__ import annotations

import json
import random
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from copy import copy
from itertools import groupby
from math import isnan
from typing import Literal

from agent_r1_core import Action, Markup, Message, ToolCall, ToolFormat, ToolResult
from agent_r1_core.chat import thought_spans, without_thinking
from agent_r1_core.chat.control import BREAK
from agent_r1_gateway.history import Said
from agent_r1_gateway.wire import Call, ChatMessage, ChatRequest, Reply, TokenLogprob, read_arguments

Thinking = Literal["separate", "text"]
"""Where a reply's reasoning goes: into the API's own field for it, or into the text, which every client keeps."""

_END = "</think>"
_CHANNEL = re.compile(r"<\|channel\|>(\w+).*?<\|message\|>(.*?)(?=<\|(?:end|start|return|call)\|>|\Z)", re.DOTALL)
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
    raw, begin = action.protected or action.text, len(action.opened)
    whole = action.opened + _without_channels(raw)
    stops = [(start, one) for one in request.stop if (start := whole.find(one, begin)) >= 0]
    stop, stopped_by = min(stops, default=(len(whole), None))
    calls: list[ToolCall] = []
    written = whole[begin:stop]
    spans, said = thought_spans(whole[:stop]), without_thinking(whole[:stop]).lstrip("\n")
    if form is not None and request.tools:
        form = copy(form)
        form.bind(request.tools)
        parsed = form.parse(action.opened + raw)
        calls = parsed.calls
        if calls:
            spans, said = _thoughts(whole, calls, form), without_thinking(_without_channels(parsed.text or ""))
            written = "".join(whole[max(first, begin) : end] for first, end in spans) + said
    thoughts = [whole[first:end].removeprefix("<think>").removesuffix(_END).strip() for first, end in spans]
    thought = "\n\n".join(filter(None, thoughts))
    if thinking == "text" or not spans:
        thought, said = "", written
    sampled = request.logprobs and not any(map(isnan, action.logprobs))  # a demonstration has none
    tokens = zip(action.ids, action.logprobs, strict=False) if sampled else ()
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


def _without_channels(said: str) -> str:
    """A reply in gpt-oss's channels as other models write it: what stands in `analysis` is a thought."""
    if not said.startswith("<|channel|>"):
        return said
    parts = [(one[1] == "analysis", one[2]) for one in _CHANNEL.finditer(said)]
    return "".join(f"<think>{text}{_END}" if thought else text for thought, text in parts) if parts else said


def _thoughts(whole: str, calls: Sequence[ToolCall], form: ToolFormat) -> list[tuple[int, int]]:
    """Where the thoughts of a reply with these calls stand: without what an argument says of thoughts, they are other
    calls."""
    spans = thought_spans(whole)
    if all(tag not in str(call.arguments) for call in calls for tag in ("<think>", _END)):
        return spans
    return [(first, end) for first, end in spans if form.parse(whole[:first] + whole[end:]).calls == calls]


def _thinking_tokens(action: Action, decode: Callable[[Sequence[int]], str]) -> int:
    """The ids up to the end of the first thought; all of them where it did not end."""
    end = "<|end|>" if action.text.startswith("<|channel|>") else _END
    return bisect_left(range(len(action.ids)), True, key=lambda count: end in decode(action.ids[:count]))


def _call(call: ToolCall) -> Call:
    arguments = _clean(json.dumps(call.arguments, ensure_ascii=False))
    return Call(_clean(call.name), read_arguments(arguments), f"call_{_new_id()}")


def _new_id() -> str:
    """Unique; asks the system for nothing, where this thread would wait for its turn again."""
    return f"{_RANDOM.getrandbits(96):024x}"


def _clean(text: str) -> str:
    return text.replace(BREAK, "")
