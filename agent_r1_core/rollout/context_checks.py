"""Checks what a context strategy chooses: a fault is a sentence about its author's code, not a crash (LAW 9)."""

from __future__ import annotations

from typing import Any

from agent_r1_core.contracts.context import History, SummaryRequest
from agent_r1_core.contracts.env import Observation
from agent_r1_core.rollout.env_checks import observation_problem
from agent_r1_core.trajectory import Message


def context_problem(chosen: Any, history: History) -> str | None:
    """What is wrong with a choice, to follow the name of its author's method; None if nothing is."""
    if isinstance(chosen, SummaryRequest):
        return _request_problem(chosen)
    if not isinstance(chosen, list | tuple):
        return f"returned {type(chosen).__name__}; return messages or a SummaryRequest"
    problem = observation_problem(Observation(list(chosen)))
    if problem is not None:
        return problem.replace("observed", "chose", 1)
    opening = history.opening
    if len(chosen) < len(opening) or any(kept is not given for kept, given in zip(chosen, opening, strict=False)):
        return "dropped the opening, which holds the task; return history.opening first"
    if chosen[-1]["role"] == "assistant" and history.messages[-1]["role"] != "assistant":
        return "ended with an action; end with the message that answers it"
    return _orphan(list(chosen[len(opening) :]), history)


def _request_problem(request: SummaryRequest) -> str | None:
    if not isinstance(request.prompt, str) or not request.prompt:
        return f"asked for a summary with {request.prompt!r:.40}; write what the policy should do"
    if not isinstance(request.heading, str):
        return f"gave the summary the heading {request.heading!r:.40}; use text"
    if not isinstance(request.max_tokens, int) or request.max_tokens < 1:
        return f"gave the summary {request.max_tokens!r:.40} tokens; use a whole number above 0"
    return None


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
