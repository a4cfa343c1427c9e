"""What requests to OpenAI's Responses API mean to the gateway, and which it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from agent_r1_gateway.dialects import responses
from agent_r1_gateway.wire import Call, ChatMessage, Reply

from .conftest import refused_field

USER = ChatMessage("user", "Where?")
ASKED = {"role": "user", "content": "Where?"}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "map"}'}
LOOK = Call("look", {"at": "map"}, "c1")
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "There."}
FOUND = ChatMessage("tool", "There.", name="look")
THOUGHT = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm."}]}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}


def asked(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "policy", "input": [*items], **fields}


BRIEF = ChatMessage("system", "Be brief.")
SPOKE = ChatMessage("assistant", "I look.")
THERE = ChatMessage("tool", "There.")
PATCH = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** go"}
SEALED = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "gAAA"}


def looked(*calls: Call, **fields: str) -> ChatMessage:
    """An assistant's message with calls, by default the one of `CALL`."""
    return ChatMessage("assistant", calls=calls or (LOOK,), **fields)


def parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "input_text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ({"model": "policy", "input": "Where?"}, [USER]),
        (asked({**ASKED, "type": "message", "id": "m", "status": "completed"}), [USER]),
        (asked(ASKED, instructions="Be brief."), [BRIEF, USER]),
        (asked({"role": "developer", "content": "Be brief."}, ASKED), [BRIEF, USER]),
        (asked(ASKED, {"role": "system", "content": "Be brief."}), [USER, BRIEF]),
        (asked({"role": "user", "content": [*parts("Whe"), {"type": "text", "text": "re?"}]}), [USER]),
        (asked(ASKED, CALL, OUTPUT), [USER, looked(), FOUND]),
        (
            asked(ASKED, THOUGHT, SAID, CALL, {**CALL, "call_id": "c2"}, OUTPUT, {**OUTPUT, "call_id": "c2"}),
            [USER, looked(LOOK, LOOK, text="I look.", thinking="Hm."), FOUND, FOUND],
        ),
        (asked(ASKED, CALL, SAID, OUTPUT), [USER, looked(text="I look."), FOUND]),
        (
            asked(ASKED, THOUGHT, SAID, THOUGHT, SAID, ASKED),
            [USER, *[ChatMessage("assistant", "I look.", thinking="Hm.")] * 2, USER],
        ),
        (asked(ASKED, SEALED, SAID, ASKED), [USER, SPOKE, USER]),
        (
            asked(ASKED, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, ASKED),
            [USER, ChatMessage("assistant", "No."), USER],
        ),
        (asked(ASKED, CALL, {**OUTPUT, "output": parts("The", "re.")}), [USER, looked(), FOUND]),
        (asked(ASKED, OUTPUT), [USER, THERE]),
        (
            asked(ASKED, PATCH, {**OUTPUT, "type": "custom_tool_call_output"}),
            [USER, looked(Call("patch", {"input": "*** go"})), replace(THERE, name="patch")],
        ),
        (
            asked(ASKED, {**CALL, "namespace": "maps"}, OUTPUT),
            [USER, looked(Call("maps__look", {"at": "map"})), replace(THERE, name="maps__look")],
        ),
    ],
)
def test_items_become_messages(body: dict[str, Any], messages: list[ChatMessage]) -> None:
    assert list(responses.read(body).messages) == messages


FUNCTION = {"type": "function", "name": "look", "description": "Look.", "parameters": {"type": "object"}}
PATCH_TOOL = {"type": "custom", "name": "patch"}
SPACE = {"type": "namespace", "name": "maps", "description": ""}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "x"}


def schema(name: str = "look", description: str = "Look.", **parameters: Any) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": {"type": "object", **parameters}}
    return {"type": "function", "function": function}


def custom(**description: str) -> dict[str, Any]:
    """The schema of a custom tool."""
    return schema("patch", "", properties={"input": {"type": "string", **description}}, required=["input"])


@pytest.mark.parametrize(
    ("tools", "schemas", "ignored"),
    [
        ([FUNCTION], [schema()], []),
        ([{**FUNCTION, "strict": True, "defer_loading": False}], [schema()], []),
        ([{"type": "function", "name": "go", "parameters": None}], [schema("go", "", properties={})], []),
        ([{**SPACE, "tools": [FUNCTION]}], [schema("maps__look")], []),
        ([PATCH_TOOL], [custom()], []),
        ([PATCH_TOOL | {"format": GRAMMAR}], [custom(description="Text of this grammar (lark):\nx")], []),
        ([{"type": "web_search"}, FUNCTION], [schema()], ["tools.web_search"]),
        (None, [], []),
    ],
)
def test_tools_become_function_schemas(tools: Any, schemas: list[Any], ignored: list[str]) -> None:
    request = responses.read(asked(ASKED, tools=tools))

    assert list(request.tools) == schemas
    assert list(request.ignored) == ignored
    assert responses.read(asked(ASKED, tools=tools, tool_choice="none")).tools == ()


def test_tools_may_stand_among_the_items_and_what_a_reply_includes_is_read() -> None:
    include = ["message.output_text.logprobs", "web_search_call.results"]
    tools = {"type": "additional_tools", "role": "developer", "tools": [FUNCTION]}
    request = responses.read(asked(tools, ASKED, include=include))
    assert (request.messages, list(request.tools), request.logprobs) == ((USER,), [schema()], True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (asked(ASKED, SAID), "input"),
        (asked(ASKED, {**THOUGHT, "encrypted_content": "agent-r1:?"}, SAID), "input[1].encrypted_content"),
        (asked(ASKED, tools=[FUNCTION, {"type": "custom", "name": "look"}]), "tools[1].name"),
        (asked(ASKED, tools=[{**SPACE, "tools": [{"type": "namespace"}]}]), "tools[0].tools[0]"),
        (asked(ASKED, prompt_cache_options={"prewarm": True}), "prompt_cache_options.prewarm"),
    ],
)
def test_what_it_cannot_do_is_refused_by_path(body: dict[str, Any], field: str) -> None:
    assert refused_field(responses, body) == field


def test_reasoning_is_sealed_where_the_request_includes_it_and_the_seal_counts_most() -> None:
    reply = Reply("r1", 1, "There.", "Hm…\n")
    include = {"include": ["reasoning.encrypted_content"]}
    sealed, text = responses.write(reply, responses.read(asked(ASKED, **include)))["output"]
    plain, _ = responses.write(reply, responses.read(asked(ASKED)))["output"]
    assert (plain["encrypted_content"], plain["summary"]) == (None, sealed["summary"])
    changed = sealed | {"summary": [{"type": "summary_text", "text": "Ha."}]}
    assert responses.read(asked(ASKED, changed, text, ASKED)).messages[1].thinking == "Hm…\n"


def test_calls_carry_the_names_that_the_client_knows() -> None:
    tools = [FUNCTION, PATCH_TOOL, {**SPACE, "tools": [FUNCTION, {"type": "custom", "name": "draw"}]}]
    called = {"look": {}, "maps__look": {}, "no": {}, "patch": {"input": '{"a": 1}'}, "maps__draw": {"input": ""}}
    reply = Reply("r1", 1, calls=tuple(Call(name, given, name) for name, given in called.items()))
    calls = responses.write(reply, responses.read(asked(ASKED, tools=tools)))["output"]
    assert [call["call_id"] for call in calls] == list(called)
    assert [(call["type"], call.get("namespace"), call["name"]) for call in calls] == [
        ("function_call", None, "look"),
        ("function_call", "maps", "look"),
        ("function_call", None, "no"),
        ("custom_tool_call", None, "patch"),
        ("custom_tool_call", "maps", "draw"),
    ]
    assert [call["input"] for call in calls[3:]] == ['{"a": 1}', ""]
