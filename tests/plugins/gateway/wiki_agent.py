"""An agent of its own for the questions of the default recipe: it asks over the OpenAI API, and searches by itself.

    env: {name: program, function: "wiki_agent:run"}

It does what the environment `tool_calling` does, so that both can be compared: same policy, same ids, same rewards.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import httpx2
from agent_r1_miniwiki.source import MiniWiki
from agent_r1_wiki_search.tool import NOTHING, WikiSearch

from agent_r1_core import ToolResources, cache_dir

MOST_TURNS = 5
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


@cache
def search_tool(split: str) -> WikiSearch:
    """The search over the passages of one split."""
    tool = WikiSearch(WikiSearch.Config(top_k=1))
    tool.name = "wiki_search"
    corpus = MiniWiki(MiniWiki.Config(split=split)).corpus()
    tool.open(ToolResources(str(cache_dir()), {split: lambda: corpus}))
    return tool


@cache
def client() -> httpx2.Client:
    """One client for all episodes, since making one takes longer than an episode's requests."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx2.Client(timeout=600, limits=limits)


def run(episode: Any) -> dict[str, Any]:
    """Play one episode."""
    tool = search_tool(episode.task["id"].partition(".")[0])
    messages: list[dict[str, Any]] = [{"role": "user", "content": episode.task["prompt"]}]
    for _ in range(MOST_TURNS):
        said = ask(episode, messages, [tool.schema()])
        messages.append(said)
        calls = said.get("tool_calls") or []
        answers = ANSWER.findall(said.get("content") or "")
        if not calls and answers:
            return {"answer": answers[-1].strip()}
        for call in calls:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": search(tool, call["function"])})
        if not calls:
            messages.append(error(said.get("content") or ""))
    return {"answer": None}


def error(text: str) -> dict[str, Any]:
    """What the environment `tool_calling` says to an action without a call and without an answer."""
    if "<tool_call>" in text:
        broken = 'a tool call is not valid JSON; write {"name": ..., "arguments": {...}}'
        return {"role": "tool", "tool_call_id": "none", "content": f"Error: {broken}."}
    return {"role": "user", "content": "Error: no tool call and no answer."}


def ask(episode: Any, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The assistant's next message."""
    body = {"model": "policy", "messages": messages, "tools": tools}
    headers = {"authorization": f"Bearer {episode.api_key}"}
    answer = client().post(f"{episode.base_url}/chat/completions", json=body, headers=headers)
    message: dict[str, Any] = answer.raise_for_status().json()["choices"][0]["message"]
    return message


def search(tool: WikiSearch, function: dict[str, Any]) -> str:
    """What the tool says to a call."""
    try:
        found = tool.search(str(json.loads(function["arguments"])["query"]), 1)
    except (KeyError, TypeError, ValueError) as error:
        return f"Error: {error}"
    return "\n\n".join(f"{passage.title}\n{passage.text}" for passage in found) or NOTHING
