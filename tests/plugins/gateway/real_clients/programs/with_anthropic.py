"""A loop over the `anthropic` SDK: `with_anthropic.py [stream]`."""

import sys
from typing import Any

import anthropic
from born import DESCRIPTION, MOST_CALLS, PARAMETERS, QUESTIONS, called, most_tokens, say

STREAM = sys.argv[1:]
TOOLS: list[Any] = [{"name": "look_up", "description": DESCRIPTION, "input_schema": PARAMETERS}]


def ask(client: anthropic.Anthropic, messages: list[Any]) -> tuple[str, bool]:
    """What the model says, and whether it calls."""
    asked: Any = {"model": "claude-opus-4-5", "messages": messages, "tools": TOOLS, "max_tokens": most_tokens()}
    if STREAM:
        with client.messages.stream(**asked) as stream:
            message: Any = stream.get_final_message()
    else:
        message = client.messages.create(**asked)
    messages.append({"role": "assistant", "content": message.content})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": called(block.name, block.input)}
        for block in message.content
        if block.type == "tool_use"
    ]
    if results:
        messages.append({"role": "user", "content": results})
    return "".join(block.text for block in message.content if block.type == "text"), bool(results)


def main() -> str | None:
    """The last answer."""
    client, messages, answer = anthropic.Anthropic(), list[Any](), None
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        for _ in range(MOST_CALLS):
            answer, calls = ask(client, messages)
            if not calls:
                break
    return answer


say(main())
