"""Makes plain data of what an environment answers: a fault is a sentence about its author's code, not a crash (LAW 9).

It raises Unfit for what breaks its contract. It runs the author's code, and raises what that raises.
"""

from __future__ import annotations

import math
from typing import Any, cast

from agent_r1_core.contracts.env import Observation, Outcome, RequestOptions, Step
from agent_r1_core.contracts.reward import LARGEST
from agent_r1_core.tools.plain import Plain, Unfit, number_of, shown, stored
from agent_r1_core.trajectory import CallRecord, Message

_ROLES = ("system", "user", "assistant", "tool")
"""A template may write a role into a control token, so that it must not be data."""


def observation_of(value: Any) -> Observation:
    """An observation as plain data; raises Unfit if it is none, or breaks its contract."""
    return _observation(value, Plain())


def opening_of(value: Any) -> Observation:
    """The observation that an episode begins with; raises Unfit where it shows nothing."""
    observation = observation_of(value)
    if not observation.messages:
        raise Unfit("showed nothing; give the policy a message to begin with")
    return observation


def step_of(value: Any) -> Step:
    """A step as plain data; raises Unfit if it is none, or breaks its contract."""
    if not isinstance(value, Step):
        raise Unfit(f"returned {type(value).__name__}; return Step")
    plain = Plain()
    terminated, truncated = _flag(value.terminated, "terminated", plain), _flag(value.truncated, "truncated", plain)
    if terminated and truncated:
        raise Unfit("ended its episode as terminated and as truncated; set the one that is meant (LAW 5)")
    errors, others = plain.copy(value.errors), value.others
    if type(errors) is not list or not all(isinstance(error, str) for error in errors):
        raise Unfit(f"gave the errors {shown(errors)}; use a list of sentences")
    spent = plain.copy(value.tool_seconds)
    seconds = number_of(spent)
    if seconds is None or not 0 <= seconds < math.inf:
        raise Unfit(f"gave {shown(spent)} as tool_seconds; use seconds")
    answer, outcome = plain.copy(value.answer), _outcome(value, plain)
    if not isinstance(others, dict) or not all(type(player) is int for player in others):
        raise Unfit(f"gave the others {shown(others)}; use a dictionary from the numbers of players to Outcome")
    if not all(isinstance(one, Outcome) for one in others.values()):
        raise Unfit("gave another player something else than an Outcome; use Outcome(reward, success)")
    observation = _observation(value.observation, plain)
    if not (observation.messages or terminated or truncated):
        raise Unfit("neither ended the episode nor showed anything; set terminated or truncated, or give a message")
    return Step(
        observation=observation,
        reward=outcome.reward,
        terminated=terminated,
        truncated=truncated,
        answer=_text(answer, "answer"),
        success=outcome.success,
        calls=_calls(value.calls, plain),
        errors=errors,
        tool_seconds=seconds,
        info=outcome.info,
        withdrawn=_flag(value.withdrawn, "withdrawn", plain),
        others={player: _outcome(one, plain) for player, one in others.items()},
    )


def message_of(value: Any, plain: Plain, verb: str = "observed") -> Message:
    """A message as plain data, or Unfit if it breaks its contract; the sentence begins with the verb."""
    message = plain.copy(value)
    if type(message) is not dict or not all(isinstance(message.get(key), str) for key in ("role", "content")):
        raise Unfit(f"{verb} {shown(message)}, which is not a chat message; give it a role and a content, both text")
    if message["role"] not in _ROLES:
        raise Unfit(f"{verb} a message of the role {message['role']!r:.40}; use {', '.join(_ROLES)}")
    return cast(Message, message)


def _observation(value: Any, plain: Plain) -> Observation:
    if not isinstance(value, Observation):
        raise Unfit(f"returned {type(value).__name__}; return Observation")
    given: Any = value.messages
    if not isinstance(given, list | tuple):
        raise Unfit(f"observed {shown(plain.copy(given))}, which is no list of chat messages; use one")
    messages = [message_of(message, plain) for message in stored(given)]
    new_context = bool(value.new_context)
    if new_context and not messages:
        raise Unfit("began a new context without a message; give the policy one to read")
    key, after = _text(plain.copy(value.state_key), "state_key"), plain.copy(value.continues)
    if not (after is None or (type(after) is int and after >= 0)) or (new_context and after is not None):
        raise Unfit(f"continues {shown(after)}; use the number of a turn, or None where a new context begins")
    request, player = _options(value.request, plain) if value.request is not None else None, plain.copy(value.player)
    if type(player) is not int or player < 0:
        raise Unfit(f"gave the turn to the player {shown(player)}; use a whole number from 0 on")
    return Observation(messages, new_context, key, after, request, player, bool(value.frozen))


def _outcome(value: Step | Outcome, plain: Plain) -> Outcome:
    given, success, info = plain.copy(value.reward), plain.copy(value.success), plain.copy(value.info)
    reward = number_of(given)
    if reward is None or not abs(reward) <= LARGEST:
        raise Unfit(f"gave the reward {shown(given)}; use a number from {-LARGEST:g} to {LARGEST:g}")
    if not (success is None or type(success) is bool):
        raise Unfit(f"gave the success {shown(success)}; use True, False or None")
    if type(info) is not dict:
        raise Unfit(f"gave the info {shown(info)}; use a dictionary")
    return Outcome(reward, success, info)


def _options(value: Any, plain: Plain) -> RequestOptions:
    if not isinstance(value, RequestOptions):
        raise Unfit(f"gave {type(value).__name__} as a request; use RequestOptions")
    tools, stop, most = plain.copy(value.tools), plain.copy(value.stop_strings), plain.copy(value.max_new_tokens)
    number = plain.copy(value.number)
    if not isinstance(tools, list | tuple) or not all(type(tool) is dict for tool in tools):
        raise Unfit(f"gave the tools {shown(tools)} with a request; use function schemas")
    if not isinstance(stop, list | tuple) or not all(isinstance(one, str) and one for one in stop):
        raise Unfit(f"gave the stop strings {shown(stop)} with a request; use a tuple of texts")
    if not (most is None or (type(most) is int and most > 0)):
        raise Unfit(f"gave a request {shown(most)} new tokens; use a whole number above 0, or None")
    if not (number is None or type(number) is int):
        raise Unfit(f"gave a request the number {shown(number)}; use a whole number, or None")
    return RequestOptions(list(tools), tuple(stop), most, number)


def _calls(given: Any, plain: Plain) -> list[CallRecord]:
    if not isinstance(given, list | tuple) or not all(isinstance(call, CallRecord) for call in stored(given)):
        raise Unfit(f"gave the calls {shown(plain.copy(given))}; use a list of CallRecord")
    return [_record(call, plain) for call in stored(given)]


def _record(call: CallRecord, plain: Plain) -> CallRecord:
    name, arguments, error = plain.copy(call.name), plain.copy(call.arguments), plain.copy(call.error)
    seconds = number_of(plain.copy(call.seconds))
    if not isinstance(name, str) or type(arguments) is not dict or seconds is None or not 0 <= seconds < math.inf:
        raise Unfit(f"gave a call {shown((name, arguments))}; name it with text, and give it a dictionary and seconds")
    return CallRecord(name, arguments, _text(error, "error of a call"), seconds)


def _flag(given: Any, name: str, plain: Plain) -> bool:
    """True or False, also as 1 and 0 or of numpy; a text such as "False" would be true."""
    value = plain.copy(given)
    if value not in (True, False):
        raise Unfit(f"gave {shown(value)} as {name}; use True or False")
    return bool(value)


def _text(value: Any, name: str) -> str | None:
    if not (value is None or isinstance(value, str)):
        raise Unfit(f"gave the {name} {shown(value)}; use text or None")
    return None if value is None else str.__str__(value)
