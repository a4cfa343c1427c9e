"""The task source `conversations`: tasks with demonstrations, from conversations in the OpenAI chat format.

| key | value |
|---|---|
| `messages` | list of messages, each with `role` and `content`, an assistant's also with `tool_calls` |
| `id` | text or whole number; without one, the file's name and the number of records before it |
| `seed` | whole number, for environments that generate their own start |
| `answers` | list of texts that rewards and scorers accept |
| `metadata` | object |

Messages before the first assistant message are the task's prompt, the others its demonstration. Only `messages` must be
there; other keys are left alone.
"""

from __future__ import annotations

from typing import Any, cast

from agent_r1_core import Message, Record, RecordsConfig, RecordTasks, Task, TaskError, demonstrated_actions, text_of


class Conversations(RecordTasks):
    """Tasks with demonstrations, from a file or the hub."""

    class Config(RecordsConfig):
        """Options of `conversations`."""

        hub: str = ""
        """A data set on the Hugging Face hub, read if `path` is null."""
        system: bool = False
        """Keep a conversation's own system message: environments put theirs before it. Off, the environment's stands
        alone, as it will in reinforcement learning and evaluation."""

    def task(self, record: Record) -> Task:
        content = record.content
        messages = content.get("messages") if isinstance(content, dict) else None
        if not isinstance(messages, list):
            raise TaskError(f"{record.where} has no list of messages; give an object with the key 'messages'")
        prompt, shown = _parts(messages)
        try:
            demonstrated_actions(shown)
            opening = [_opening(message) for message in prompt]
        except ValueError as error:
            raise TaskError(f"{record.where} is no demonstration: {error}; repair or remove it") from None
        if not self.config.system:
            opening = [message for message in opening if message["role"] != "system"]
        if not opening:
            raise TaskError(f"{record.where} has no message before the assistant's first; begin it with the task")
        alone = len(opening) == 1 and opening[0]["role"] == "user"
        return Task(
            id=_label(content.get("id")) or f"{self.config.stem}.{record.index}",
            prompt=opening[0]["content"] if alone else opening,
            answers=_answers(content, record.where),
            seed=_seed(content, record.where),
            metadata=_metadata(content, record.where),
            demonstration=cast("list[Message]", shown),
        )


def _parts(messages: list[Any]) -> tuple[list[Any], list[Any]]:
    """The messages before the assistant's first, and from there on."""
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    first = roles.index("assistant") if "assistant" in roles else len(messages)
    return messages[:first], messages[first:]


def _opening(message: Any) -> Message:
    """A message of the prompt.

    Raises:
        ValueError: it is none.
    """
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ("system", "user"):
        raise ValueError(f"a message before the assistant's first is of the role {role!r}; use system and user alone")
    return {"role": role, "content": text_of(message)}


def _label(value: Any) -> str:
    return str(value) if isinstance(value, str) or type(value) is int else ""


def _answers(content: dict[str, Any], where: str) -> tuple[str, ...]:
    answers = content.get("answers") or []
    if not isinstance(answers, list) or not all(isinstance(one, str) for one in answers):
        raise TaskError(f"the answers of {where} are no list of texts; give one, or leave the key out")
    return tuple(answers)


def _seed(content: dict[str, Any], where: str) -> int | None:
    seed = content.get("seed")
    if seed is not None and type(seed) is not int:
        raise TaskError(f"the seed of {where} is no whole number; give one, or leave the key out")
    return seed


def _metadata(content: dict[str, Any], where: str) -> dict[str, Any]:
    metadata = content.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise TaskError(f"the metadata of {where} are no object; give one, or leave the key out")
    return metadata
