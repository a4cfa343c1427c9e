"""Writes an episode as a conversation in the OpenAI chat format: the inverse of playing a demonstration.

Played as a demonstration with the observations of the file, the conversation is the same episode again, token by token
(LAW 1), if the policy wrote its text as the tokenizer does and ended its turns as the template does. `difference` says
why it is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_r1_core.contracts.tool_format import ToolCall, ToolFormat
from agent_r1_core.rollout.demonstration import BadDemonstration
from agent_r1_core.trajectory import EndStatus, Message, Task, Trajectory, Turn


def conversation_of(trajectory: Trajectory, tool_format: ToolFormat | None, name: str) -> dict[str, Any]:
    """The record of an episode: its task's own messages, and what followed them. The environment writes its system
    message itself when the record is played.

    Args:
        tool_format: of the episode; None: the environment had none.
        name: the id of the record.

    Raises:
        BadDemonstration: the episode cannot be shown by a conversation.
    """
    if len(trajectory.steps) < len(trajectory.turns):
        raise BadDemonstration("the policy summed up its context, which no conversation shows; set context=append")
    messages = _opening(trajectory.task)
    shown = [turn.observation for turn in trajectory.turns[1:]] + [trajectory.closing]
    for turn, answers in zip(trajectory.turns, shown, strict=True):
        messages += [_action(turn, tool_format), *_answered(turn, answers, tool_format)]
    task = trajectory.task
    given = {"answers": list(task.answers), "seed": task.seed, "metadata": dict(task.metadata)}
    return {"id": name, "messages": messages} | {
        key: value for key, value in given.items() if value not in (None, [], {})
    }


def line_of(record: Mapping[str, Any]) -> str:
    """A record as a line of a file, without the end of the line."""
    text = json.dumps(record, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates as JSON escapes


def task_of(line: str) -> Task:
    """The task with a demonstration that a line of `line_of` is."""
    record = json.loads(line)
    messages = record["messages"]
    first = [message["role"] for message in messages].index("assistant")
    prompt, shown = messages[:first], messages[first:]
    alone = len(prompt) == 1 and prompt[0]["role"] == "user"
    return Task(
        id=record["id"],
        prompt=prompt[0]["content"] if alone else prompt,
        answers=tuple(record.get("answers", ())),
        seed=record.get("seed"),
        metadata=record.get("metadata", {}),
        demonstration=shown,
    )


def difference(episode: Trajectory, again: Trajectory) -> str | None:
    """Why an episode is not the same when its conversation is played, in a sentence; None: it is."""
    if again.status is EndStatus.FAILED:
        return again.reason
    if [turn.text for turn in episode.turns] != [turn.text for turn in again.turns]:
        return "the environment ends the episode elsewhere when its conversation is played"
    ours, theirs = ([(one.ids, one.mask) for one in each.segments] for each in (episode, again))
    if ours == theirs:
        return None
    if episode.messages() != again.messages():
        return "the environment says something else when its conversation is played; only what tools answer is kept"
    return "the policy wrote its text in other tokens than the tokenizer, or ended a turn otherwise than the template"


def _opening(task: Task) -> list[dict[str, Any]]:
    """The task's own messages."""
    if isinstance(task.prompt, str):
        return [{"role": "user", "content": str(task.prompt)}]
    if any(message["role"] not in ("system", "user") for message in task.prompt):
        raise BadDemonstration(
            f"the prompt of task {task.id} holds an answer already, where a demonstration would begin"
        )
    return [{"role": message["role"], "content": str(message["content"])} for message in task.prompt]


def _action(turn: Turn, tool_format: ToolFormat | None) -> dict[str, Any]:
    """The message of an action: with its calls beside its text where the format writes them in the very same way, else
    with its text alone, in which the format reads them."""
    calls = [ToolCall(call.name, dict(call.arguments)) for call in turn.calls]
    if tool_format is not None and calls:
        written = tool_format.render_action("", calls)
        text = turn.text.removesuffix(written).removesuffix("\n")
        if tool_format.render_action(text, calls) == turn.text:
            return {"role": "assistant", "content": text or None, "tool_calls": [_call(call) for call in calls]}
    return {"role": "assistant", "content": turn.text}


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"type": "function", "function": {"name": call.name, "arguments": arguments}}


def _answered(turn: Turn, answers: Sequence[Message], tool_format: ToolFormat | None) -> list[dict[str, Any]]:
    """What was read after an action: a tool message for each of its calls, all else as if a user had said it."""
    messages: list[dict[str, Any]] = []
    left = len(turn.calls)
    for message in answers:
        results = tool_format.read_results(message) if tool_format is not None else []
        for text in results or [message["content"]]:
            role = "tool" if results and left > 0 else "user"
            left -= role == "tool"
            messages.append({"role": role, "content": str(text)})
    return messages
