"""A loop over the `openai` SDK: `with_openai.py chat|responses [stream]`."""

import sys
from typing import Any

import openai
from born import DESCRIPTION, MOST_CALLS, PARAMETERS, QUESTIONS, called, most_tokens, say

API, *STREAM = sys.argv[1:]
FUNCTION = {"name": "look_up", "description": DESCRIPTION, "parameters": PARAMETERS, "strict": True}


def chat(client: openai.OpenAI, messages: list[Any]) -> tuple[str | None, bool]:
    """What the model says, and whether it calls."""
    asked: Any = {"model": "gpt-5", "messages": messages, "tools": [{"type": "function", "function": FUNCTION}]}
    asked["max_completion_tokens"] = most_tokens()
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


def responses(client: openai.OpenAI, items: list[Any]) -> tuple[str | None, bool]:
    """What the model says, and whether it calls."""
    asked: Any = {"model": "gpt-5", "input": items, "tools": [{"type": "function", **FUNCTION}], "store": False}
    asked |= {"max_output_tokens": most_tokens(), "include": ["reasoning.encrypted_content"]}
    if STREAM:
        with client.responses.stream(**asked) as stream:
            response: Any = stream.get_final_response()
    else:
        response = client.responses.create(**asked)
    items += response.output
    calls = [item for item in response.output if item.type == "function_call"]
    for call in calls:
        output = called(call.name, call.arguments)
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    return response.output_text, bool(calls)


def main() -> str | None:
    """The last answer."""
    ask, client = {"chat": chat, "responses": responses}[API], openai.OpenAI()
    conversation: list[Any] = []
    answer = None
    for question in QUESTIONS:
        conversation.append({"role": "user", "content": question})
        for _ in range(MOST_CALLS):
            answer, calls = ask(client, conversation)
            if not calls:
                break
    return answer


try:
    say(main())
except openai.LengthFinishReasonError:  # the helper for streams of Chat gives no message that was cut
    say(None)
