"""What coding agents sent, two requests each with a call between them: the second goes on where the first was answered.

Claude Code 2.1.197, pi 0.73.1 and opencode 1.18.33, their texts shortened and all tools but one left out.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_r1_gateway.dialects import chat, messages
from agent_r1_gateway.dialects.fields import Dialect
from agent_r1_gateway.wire import Call, ChatMessage

REQUESTS = json.loads((Path(__file__).parent / "client_requests.json").read_text())
ARGUMENTS = {"command": "echo hello-42", "description": "say"}
CLIENTS = [
    pytest.param(
        messages, "claude code", ("thinking", "context_management", "output_config", "metadata"), id="claude code"
    ),
    pytest.param(chat, "pi", ("store", "reasoning_effort"), id="pi"),
    pytest.param(chat, "opencode", (), id="opencode"),
]


@pytest.mark.parametrize(("dialect", "name", "ignored"), CLIENTS)
def test_the_second_request_goes_on_where_the_first_was_answered(dialect: Dialect, name: str, ignored: tuple[str, ...]):
    first, second = (dialect.read(body) for body in REQUESTS[name])
    (tool,) = (tool["function"]["name"] for tool in first.tools)
    said = ChatMessage("assistant", "I look.", (Call(tool, ARGUMENTS),), "I think so.")
    assert first.tools == second.tools
    assert set(first.ignored) == set(second.ignored) == set(ignored)
    *before, answer, result = (message.key() for message in second.messages)
    assert before == [message.key() for message in first.messages]
    assert answer == said.key()
    assert result == ChatMessage("tool", second.messages[-1].text, name=tool).key()
    assert second.messages[-1].text.strip() == "hello-42"


def test_the_line_for_billing_is_no_part_of_the_system_prompt():
    first, second = (messages.read(body).messages[0].text for body in REQUESTS["claude code"])
    assert first == second
    assert first.startswith("You are a Claude agent")
