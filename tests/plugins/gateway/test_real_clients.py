"""What coding agents sent, two requests each with a call between them: the second goes on where the first was answered.

Claude Code 2.1.197, pi 0.73.1 and opencode 1.18.33, their texts shortened and all tools but one left out; and Codex.
"""

from __future__ import annotations

import pytest
from agent_r1_gateway.dialects import chat, messages, responses
from agent_r1_gateway.wire import Call, ChatMessage

from .conftest import recorded

REQUESTS = recorded("client_requests")
ARGUMENTS = {"command": "echo hello-42", "description": "say"}
CLIENTS = {
    "claude code": (messages, {"thinking", "context_management", "output_config.effort", "metadata"}),
    "pi": (chat, {"store", "reasoning_effort"}),
    "opencode": (chat, set()),
}
"""By name: the API, and what of their requests has no effect."""


@pytest.mark.parametrize("name", CLIENTS)
def test_the_second_request_goes_on_where_the_first_was_answered(name: str) -> None:
    dialect, ignored = CLIENTS[name]
    first, second = (dialect.read(body) for body in REQUESTS[name])
    (tool,) = (tool["function"]["name"] for tool in first.tools)
    said = ChatMessage("assistant", "I look.", (Call(tool, ARGUMENTS),), "I think so.")
    assert first.tools == second.tools
    assert set(first.ignored) == set(second.ignored) == ignored
    *before, answer, result = (message.key() for message in second.messages)
    assert before == [message.key() for message in first.messages]
    assert answer == said.key()
    assert result == ChatMessage("tool", second.messages[-1].text, name=tool).key()
    assert second.messages[-1].text.strip() == "hello-42"


def test_what_codex_sends_also_for_models_that_it_knows_is_understood() -> None:
    request = responses.read(recorded("codex_request"))
    *before, said, refused, output, _, _ = request.messages

    assert [message.role for message in before] == ["system", "system", "user", "user"]
    assert before[1].text.startswith("<skills")
    assert "<permissions" in before[1].text
    assert (said.text, said.thinking) == ("Looking.", "I look é.")
    assert said.calls[1] == Call("multi_agent_v1__close_agent", {"target": "x"})
    assert (refused.name, output.name) == ("exec_command", "multi_agent_v1__close_agent")
    assert [tool["function"]["name"] for tool in request.tools][-1] == "multi_agent_v1__resume_agent"
    assert request.stream
    fields = ("parallel_tool_calls", "reasoning", "prompt_cache_key", "client_metadata", "tools.web_search")
    assert request.ignored == fields
    request = responses.read(recorded("codex_team_request"))
    said, ran, _, _, _, told = request.messages[-6:]

    assert said.calls[0] == Call("functions__exec", {"input": "text(1+1)"})
    assert ran == ChatMessage("tool", "Script completed\nWall time 0.0 seconds\nOutput:\n2", name="functions__exec")
    assert told.role == "user"
    assert told.text.endswith("Done.")
    assert [tool["function"]["name"] for tool in request.tools][:2] == ["functions__exec", "functions__wait"]
