"""What Codex sends, recorded from the program and shortened; and the same with a wrong value in every place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from agent_r1_gateway.dialects import responses
from agent_r1_gateway.wire import Call, ChatMessage, Refused, Reply


def recorded(name: str) -> dict[str, Any]:
    return dict(json.loads((Path(__file__).parent / f"{name}.json").read_text("utf-8")))


def test_what_codex_sends_is_understood() -> None:
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
    assert request.ignored == (
        "parallel_tool_calls",
        "reasoning",
        "prompt_cache_key",
        "client_metadata",
        "tools.web_search",
    )


def test_what_codex_sends_for_models_that_it_knows_is_understood() -> None:
    request = responses.read(recorded("codex_team_request"))
    said, ran, _, _, _, told = request.messages[-6:]

    assert said.calls[0] == Call("functions__exec", {"input": "text(1+1)"})
    assert ran == ChatMessage("tool", "Script completed\nWall time 0.0 seconds\nOutput:\n2", name="functions__exec")
    assert told.role == "user"
    assert told.text.endswith("Done.")
    assert [tool["function"]["name"] for tool in request.tools][:2] == ["functions__exec", "functions__wait"]


WRONG: tuple[Any, ...] = (None, True, -1, 1.5, "", "x", [], {}, [None], [[]], {"type": "x"}, {"type": {}})


def spoiled(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a request."""
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from spoiled(one, (*place, key))


def refusal(body: dict[str, Any]) -> Refused | None:
    try:
        responses.read(body)
    except Refused as refused:
        return refused
    return None


@pytest.mark.parametrize("name", ["codex_request", "codex_team_request"])
def test_a_wrong_value_anywhere_is_refused_in_one_sentence_or_has_no_effect(name: str) -> None:
    deep: Any = "x"
    for _ in range(1000):
        deep = [deep]
    body, reply = recorded(name), Reply("r", 1, "Done.", "So.", (Call("multi_agent_v1__close_agent", {}, "c"),))
    for place in [place for place in spoiled(body) if place]:
        for wrong in (*WRONG, deep):
            broken = deepcopy(body)
            inner: Any = broken
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = wrong
            refused = refusal(broken)
            if refused is None:
                request = responses.read(broken)
                assert all(message.key() for message in request.messages)
                json.dumps(responses.events(reply, request))
                continue
            assert refused.field
            assert "\n" not in str(refused)
            assert len(str(refused)) < 200
