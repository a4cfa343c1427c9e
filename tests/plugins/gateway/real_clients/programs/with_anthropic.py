"""A loop over the `anthropic` SDK: `with_anthropic.py [stream]`."""

import sys
from typing import Any

import anthropic
from episodes import DESCRIPTION, MOST_CALLS, PARAMETERS, PLAIN, Episode, called, play

TOOLS: list[Any] = [{"name": "look_up", "description": DESCRIPTION, "input_schema": PARAMETERS}]


def ask(client: anthropic.Anthropic, messages: list[Any], most_tokens: int) -> tuple[str, bool]:
    """What the model says, and whether it calls."""
    asked: Any = {"model": "policy", "messages": messages, "tools": TOOLS, "max_tokens": most_tokens}
    if "stream" in sys.argv:
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


def run(episode: Episode) -> str | None:
    """The last answer."""
    messages, answer = list[Any](), None
    http = anthropic.DefaultHttpxClient(**PLAIN)
    with anthropic.Anthropic(base_url=episode.anthropic_base_url, api_key=episode.api_key, http_client=http) as client:
        for question in episode.questions:
            messages.append({"role": "user", "content": question})
            for _ in range(MOST_CALLS):
                answer, calls = ask(client, messages, episode.most_tokens())
                if not calls:
                    break
    return answer


play(run)
