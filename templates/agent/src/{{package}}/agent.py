"""The agent: it asks a model over the OpenAI API, has a tool of its own, and answers.

Nothing here knows about training: put your own agent in place of `run`, on whatever SDK or library it uses.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2

MOST_STEPS = 5
BORN = {"Karimo": "Tavelo", "Lisanda": "Orvik"}
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Says where somebody was born.",
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
}


def look_up(name: str = "") -> str:
    """The agent's tool."""
    place = BORN.get(name)
    return f"{name} was born in {place}." if place else "Nothing is known."


def run(episode: Any) -> dict[str, Any]:
    """Play one episode.

    Args:
        episode: has `task` (id, prompt, seed), `base_url`, `anthropic_base_url`, `api_key`, and `reward(number)`, which
            rewards the last turn.

    Returns:
        The answer, which the rewards of the recipe score; `reward` beside it would count as well.
    """
    messages: list[dict[str, Any]] = [{"role": "user", "content": episode.task["prompt"]}]
    headers = {"authorization": f"Bearer {episode.api_key}"}
    with httpx2.Client(base_url=episode.base_url, headers=headers, timeout=300) as client:
        for _ in range(MOST_STEPS):
            body = {"model": "policy", "messages": messages, "tools": [TOOL]}
            answer = client.post("chat/completions", json=body).raise_for_status().json()
            message = answer["choices"][0]["message"]
            messages.append(message)
            calls = message.get("tool_calls") or []
            if not calls:
                return {"answer": _plain(message["content"])}
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": _result(call)} for call in calls]
    return {"answer": None}


def _plain(answer: str) -> str:
    """The answer without the tags that the bundled model was taught to write; rewards compare it to the letter."""
    return answer.strip().removeprefix("<answer>").removesuffix("</answer>")


def _result(call: dict[str, Any]) -> str:
    """What the tool says; a model may write any arguments."""
    try:
        return look_up(**json.loads(call["function"]["arguments"]))
    except (TypeError, ValueError) as error:
        return f"Error: {error}"
