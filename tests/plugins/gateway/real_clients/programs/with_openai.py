"""A loop over the `openai` SDK: `with_openai.py chat|responses [stream]`."""

import sys
from typing import Any

import openai
from episodes import DESCRIPTION, MOST_CALLS, PARAMETERS, PLAIN, Episode, called, play

STREAM = "stream" in sys.argv
FUNCTION = {"name": "look_up", "description": DESCRIPTION, "parameters": PARAMETERS, "strict": True}


def chat(client: openai.OpenAI, messages: list[Any], most_tokens: int) -> tuple[str | None, bool]:
    """What the model says, and whether it calls."""
    asked: Any = {"model": "gpt-5", "messages": messages, "tools": [{"type": "function", "function": FUNCTION}]}
    asked["max_completion_tokens"] = most_tokens
    if STREAM:
        with client.chat.completions.stream(**asked) as stream:
            message: Any = stream.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(**asked).choices[0].message
    messages.append(message)
    for call in message.tool_calls or []:
        content = called(call.function.name, call.function.arguments)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    return message.content, bool(message.tool_calls)


def responses(client: openai.OpenAI, items: list[Any], most_tokens: int) -> tuple[str | None, bool]:
    """What the model says, and whether it calls."""
    asked: Any = {"model": "gpt-5", "input": items, "tools": [{"type": "function", **FUNCTION}], "store": False}
    asked |= {"max_output_tokens": most_tokens, "include": ["reasoning.encrypted_content"]}
    if STREAM:
        with client.responses.stream(**asked) as stream:
            *_, last = stream
        response: Any = last.response
    else:
        response = client.responses.create(**asked)
    items += response.output
    calls = [item for item in response.output if item.type == "function_call"]
    for call in calls:
        output = called(call.name, call.arguments)
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    return response.output_text, bool(calls)


def run(episode: Episode) -> str | None:
    """The last answer."""
    ask = chat if "chat" in sys.argv else responses
    conversation, answer = list[Any](), None
    http = openai.DefaultHttpxClient(**PLAIN)
    with openai.OpenAI(base_url=episode.base_url, api_key=episode.api_key, http_client=http) as client:
        for question in episode.questions:
            conversation.append({"role": "user", "content": question})
            for _ in range(MOST_CALLS):
                try:
                    answer, calls = ask(client, conversation, episode.most_tokens())
                except openai.LengthFinishReasonError:  # the helper for streams of Chat gives no message that was cut
                    return None
                if not calls:
                    break
    return answer


play(run)
