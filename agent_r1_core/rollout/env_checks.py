"""Checks what an environment answers: a fault is a sentence about its author's code, not a crash (LAW 9)."""

from __future__ import annotations

import json
import math
from numbers import Real
from typing import Any

from agent_r1_core.contracts.env import Observation, Step
from agent_r1_core.trajectory import CallRecord

_ROLES = ("system", "user", "assistant", "tool")
"""A template may write a role into a control token, so that it must not be data."""


def observation_problem(value: Any, expected: str = "Observation") -> str | None:
    """What is wrong with an observation, to follow the name of its author's method; None if nothing is."""
    if not isinstance(value, Observation):
        return f"returned {type(value).__name__}; return {expected}"
    for message in value.messages:
        complete = isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))
        if not complete:
            return f"observed {message!r:.80}, which is not a chat message; give it a role and a content, both text"
        if message["role"] not in _ROLES:
            return f"observed a message of the role {message['role']!r:.40}; use {', '.join(_ROLES)}"
    if value.new_context and not value.messages:
        return "began a new context without a message; give the policy one to read"
    if not (value.state_key is None or isinstance(value.state_key, str)):
        return f"gave the state_key {value.state_key!r:.80}; use text or None"
    return None


def step_problem(value: Any) -> str | None:
    """What is wrong with a step, to follow the name of its author's method; None if nothing is."""
    if not isinstance(value, Step):
        return f"returned {type(value).__name__}; return Step"
    if not isinstance(value.reward, Real) or not math.isfinite(value.reward):
        return f"gave the reward {value.reward!r:.80}; use a finite number"
    if value.terminated and value.truncated:
        return "ended its episode as terminated and as truncated; set the one that is meant (LAW 5)"
    for name, kinds in (("answer", str), ("success", bool)):
        given = getattr(value, name)
        if not (given is None or isinstance(given, kinds)):
            return f"gave the {name} {given!r:.80}; use {'text' if kinds is str else 'True, False'} or None"
    if not all(isinstance(call, CallRecord) for call in value.calls):
        return f"gave the calls {value.calls!r:.80}; use a list of CallRecord"
    if not isinstance(value.errors, list) or not all(isinstance(error, str) for error in value.errors):
        return f"gave the errors {value.errors!r:.80}; use a list of sentences"
    if not isinstance(value.tool_seconds, Real) or not 0 <= value.tool_seconds < math.inf:
        return f"gave {value.tool_seconds!r:.80} as tool_seconds; use seconds"
    if not isinstance(value.info, dict):
        return f"gave the info {value.info!r:.80}; use a dictionary"
    try:
        json.dumps([value.info, [dict(call.arguments) for call in value.calls]], default=str)
    except Exception as error:
        return f"noted calls or info that are not JSON-able ({error}); use text, numbers, lists and dictionaries"
    return observation_problem(value.observation)
