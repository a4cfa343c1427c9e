"""The clients: which program plays with each, and what its model may call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Client:
    """A client, and a tool of it."""

    words: tuple[str, ...]
    """The program, here or on the page of the docs, and its arguments."""
    tool: str
    arguments: Mapping[str, Any]
    """Of a call that makes the tool say `found`."""
    found: str
    episodes: int = 50
    """Of the thousand; most are the SDKs', which are the quickest."""
    requests: int = 2
    """Of an episode with one call."""
    rewrites: bool = False
    """It sends what the policy said back in other words, so that every request begins a segment."""

    @property
    def from_npm(self) -> bool:
        """Whether it is a coding agent."""
        return self.words[0].endswith(".sh")

    def call(self, **other: Any) -> str:
        """A call of its tool, as the policy writes it."""
        return f"<tool_call>\n{json.dumps({'name': self.tool, 'arguments': {**self.arguments, **other}})}\n</tool_call>"


def _python(*words: str, **further: Any) -> Client:
    return Client(words, "look_up", {"name": "Karimo"}, "Karimo was born in Tavelo.", **further)


def _shell(program: str, tool: str, argument: str, **further: str) -> Client:
    return Client((program,), tool, {argument: "echo born in $((40 + 2))", **further}, "born in 42", 4)


CLIENTS = {
    "openai chat": _python("with_openai.py", "chat", episodes=140),
    "openai chat stream": _python("with_openai.py", "chat", "stream", episodes=140),
    "openai responses": _python("with_openai.py", "responses", episodes=140),
    "openai responses stream": _python("with_openai.py", "responses", "stream", episodes=140),
    "anthropic": _python("with_anthropic.py", episodes=140),
    "anthropic stream": _python("with_anthropic.py", "stream", episodes=140),
    "openai-agents": _python("with_openai_agents.py"),
    "pydantic-ai": _python("with_pydantic_ai.py"),
    "smolagents": _python("with_smolagents.py", requests=3, rewrites=True),
    "claude code": _shell("claude.sh", "Bash", "command", description="Look"),
    "codex": _shell("codex.sh", "exec_command", "cmd"),
    "pi": _shell("pi.sh", "bash", "command"),
}
