"""Clients of Python, unchanged: each calls a tool, reads what it says, and answers; its tokens are trained once."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core import EndStatus, Task

from .conftest import PROGRAMS, played

pytestmark = [pytest.mark.installed, pytest.mark.slow]

CLIENTS = {
    "openai chat": ("with_openai.py", "chat"),
    "openai chat stream": ("with_openai.py", "chat", "stream"),
    "openai responses": ("with_openai.py", "responses"),
    "openai responses stream": ("with_openai.py", "responses", "stream"),
    "anthropic": ("with_anthropic.py",),
    "anthropic stream": ("with_anthropic.py", "stream"),
    "openai-agents": ("with_openai_agents.py",),
    "pydantic-ai": ("with_pydantic_ai.py",),
}
TASK = Task("q", "Where was Karimo born?")
CALL = '<think>\nI look.\n</think>\n\nA moment.\n<tool_call>\n{"name": "look_up", "arguments": {"name": "Karimo"}}\n</tool_call>'


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_plays_with_its_tool(client: str, client_python: Path) -> None:
    program, *arguments = CLIENTS[client]
    command = [str(client_python), str(PROGRAMS / program), *arguments]
    result, counts = played([CALL, "In Tavelo."], [TASK], command=command)
    (trajectory,) = result.trajectories
    assert (trajectory.status, trajectory.answer) == (EndStatus.TERMINATED, "In Tavelo.")
    assert [(call.name, call.arguments) for call in trajectory.turns[0].calls] == [("look_up", {"name": "Karimo"})]
    assert "Karimo was born in Tavelo." in trajectory.turns[1].observation[0]["content"]
    assert (counts.requests, counts.segments, counts.encoded_again) == (2, 1, 0)
    assert (counts.trained_once, counts.trained_otherwise) == (counts.sampled, 0)
