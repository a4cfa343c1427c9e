"""Baselines for a trained agent: closed book, naive RAG, and the agent with silenced tools.

The first two ask the policy without tools (leave `tools` empty) and with the same system prompt. Silenced tools show
whether a policy uses its tools at all: one that guesses scores the same without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agent_r1_core.contracts.tasks import Passage
from agent_r1_core.contracts.tool import Tool, ToolContext, ToolResources
from agent_r1_core.trajectory import Message, Task

Search = Callable[[str], str | Sequence[Passage]]
"""Finds passages for a question; a returned string is a block `Title\\nText`, blank line, `Title\\nText`."""


def closed_book(task: Task) -> Task:
    """The question alone, which the policy must answer from memory."""
    return replace(task, metadata={**task.metadata, "baseline": "closed_book"})


def naive_rag(task: Task, search: Search) -> Task:
    """The question with passages before it, which one search for its words found.

    The prompt becomes `Title\\nText\\n\\n...\\n\\nQuestion`; in a prompt of messages, the last user message does.

    Raises:
        ValueError: the prompt has no user message.
    """
    passages = search(question(task))
    if not isinstance(passages, str):
        passages = "\n\n".join(f"{passage.title}\n{passage.text}" for passage in passages)
    metadata = {**task.metadata, "baseline": "naive_rag"}
    return replace(task, prompt=_with_passages(task.prompt, passages), metadata=metadata)


def question(task: Task) -> str:
    """The task's question: its prompt, or the prompt's last user message.

    Raises:
        ValueError: the prompt has no user message.
    """
    if isinstance(task.prompt, str):
        return task.prompt
    return task.prompt[_last_user(task.prompt)]["content"]


class SilentTool(Tool):
    """Replaces a tool: the same name, description and arguments, but always the same empty answer."""

    def __init__(self, tool: Tool, answer: str = "No passage found.") -> None:
        super().__init__(tool.config)
        self.name = tool.name
        self.answer = answer
        self._tool = tool
        self.Arguments = tool.Arguments  # type: ignore[misc]  # the arguments of this instance's tool

    def open(self, resources: ToolResources) -> None:
        """Open nothing: there is nothing to look up."""

    def run(self, arguments: Any, context: ToolContext) -> str:
        """Return the fixed answer."""
        return self.answer

    def schema(self) -> dict[str, Any]:
        """The schema of the replaced tool."""
        return self._tool.schema()


def _with_passages(prompt: str | Sequence[Message], block: str) -> str | list[Message]:
    if not block:
        return prompt if isinstance(prompt, str) else list(prompt)
    if isinstance(prompt, str):
        return f"{block}\n\n{prompt}"
    messages, index = list(prompt), _last_user(prompt)
    messages[index] = {**messages[index], "content": f"{block}\n\n{messages[index]['content']}"}
    return messages


def _last_user(messages: Sequence[Message]) -> int:
    for index in reversed(range(len(messages))):
        if messages[index].get("role") == "user":
            return index
    raise ValueError("the task's prompt has no user message to take the question from; add one")
