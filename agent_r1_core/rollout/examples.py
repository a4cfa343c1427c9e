"""Examples: conversations before a task, as turns of their own (few-shot), never credited.

Each is a task with its demonstration. It is written as an episode of the run would be: calls and results in the run's
tool format, the rest by the chat template. Control tokens count in them as they do in an episode: where the format
writes them, and in the assistant's own words but for special ones. Nothing is called, and nothing checks that an
environment would answer so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from agent_r1_core.chat.control import ControlTokens
from agent_r1_core.contracts.demonstration import DemonstratedAction, demonstrated_actions
from agent_r1_core.contracts.tool_format import ToolFormat, ToolResult
from agent_r1_core.errors import ConfigError
from agent_r1_core.rollout.demonstration import BadDemonstration, written_action
from agent_r1_core.trajectory import Message, Task, question


@dataclass(frozen=True)
class Examples:
    """The examples of a run."""

    file: str
    """Where they come from."""
    tasks: tuple[Task, ...]
    """All conversations of the file, in its order."""
    most: int | None = None
    """Most of them before a task; None: all."""

    def to_json(self) -> dict[str, Any]:
        """For reports: the file, its content's SHA-256, and how many precede a task."""
        content = [[task.prompt, task.seed, list(task.demonstration)] for task in self.tasks]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
        count = len(self.tasks) if self.most is None else min(self.most, len(self.tasks))
        return {"file": self.file, "sha256": digest, "conversations": len(self.tasks), "before_a_task": count}

    def describe(self) -> str:
        """The same as a sentence."""
        facts = self.to_json()
        return (
            f"examples before every task: {facts['before_a_task']} of the {facts['conversations']} conversations in "
            f"{facts['file']} (SHA-256 {facts['sha256'][:12]}), without one that asks the task itself"
        )

    def before(self, task: Task, seen: Sequence[Message]) -> list[Task]:
        """The examples of a task: the first ones of the file that do not ask the very same. `seen` are the
        environment's first messages."""
        return [one for one in self.tasks if not _same(one, task, seen)][: self.most]

    def messages(self, chosen: Sequence[Task], tool_format: ToolFormat | None, control: ControlTokens) -> list[Message]:
        """The examples as a policy with these control tokens reads them, in the run's tool format.

        Raises:
            ConfigError: one of them cannot be written so.
        """
        return [message for task in chosen for message in self._messages(task, tool_format, control)]

    def _messages(self, task: Task, tool_format: ToolFormat | None, control: ControlTokens) -> Iterator[Message]:
        where = f"conversation {self.tasks.index(task) + 1} of {self.file}"
        if isinstance(task.prompt, str):
            yield {"role": "user", "content": task.prompt}
        else:
            yield from task.prompt
        for number, action in enumerate(demonstrated_actions(task.demonstration), 1):
            text, names = _written(action, tool_format, f"action {number} of {where}")
            yield {"role": "assistant", "content": control.spoken(text)}
            for is_tool, replies in groupby(action.replies, key=lambda reply: reply["role"] == "tool"):
                if is_tool and tool_format is not None:
                    yield from tool_format.results([ToolResult(next(names), reply["content"]) for reply in replies])
                else:
                    yield from replies


def _written(action: DemonstratedAction, tool_format: ToolFormat | None, where: str) -> tuple[str, Iterator[str]]:
    """The text of an action, and the names of the tools that it calls."""
    try:
        text, calls = written_action(action, tool_format, where)
        if len(action.answers) != len(calls):
            raise BadDemonstration(
                f"{where} makes {len(calls)} calls, and {len(action.answers)} tool messages follow; give each call one"
            )
        strange = next((reply["role"] for reply in action.replies if reply["role"] not in ("tool", "user")), None)
        if strange is not None:
            raise BadDemonstration(f"a message of the role {strange!r:.40} follows {where}; use tool and user")
    except BadDemonstration as error:
        raise ConfigError(f"env.examples cannot be shown: {error}") from None
    return text, iter([call.name for call in calls])


def _same(example: Task, task: Task, seen: Sequence[Message]) -> bool:
    """Whether an example asks the very task, or begins with what its environment says first."""
    asked = _plain(question(example.prompt))
    if asked == _plain(question(task.prompt)):
        return example.seed is None or task.seed is None or example.seed == task.seed
    return any(message["role"] == "user" and _plain(message["content"]) == asked for message in seen)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
