"""Makes plain data of what a context strategy chooses: a fault is a sentence, not a crash (LAW 9).

It runs the author's code, and raises what that raises.
"""

from __future__ import annotations

from typing import Any

from agent_r1_core.contracts.context import History, SummaryRequest
from agent_r1_core.rollout.env_checks import message_of
from agent_r1_core.tools.plain import Plain, Unfit, is_plain, shown, stored
from agent_r1_core.trajectory import Message


def choice_of(chosen: Any, history: History) -> list[Message] | SummaryRequest:
    """A choice as plain data; messages of the history stay the very objects.

    Raises:
        Unfit: it breaks its contract.
    """
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
    """A tool's answer that stands behind no action, or behind another one than its own."""
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
