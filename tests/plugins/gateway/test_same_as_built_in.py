"""The default task, played by a program with a search of its own, gives the episodes of the built-in environment."""

from __future__ import annotations

import asyncio
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agent_r1_miniwiki.source import MiniWiki
from agent_r1_wiki_search.tool import WikiSearch

from agent_r1_core import ToolResources, cache_dir
from agent_r1_core.assembly.assembly import assemble
from agent_r1_core.rollout import RolloutRequest
from agent_r1_core.training.api import resolve
from agent_r1_core.trajectory import Trajectory

MOST_TURNS = 5
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
ENV = f"env={{name: program, function: '{Path(__file__).stem}:run', max_tokens: 1024, max_turns: {MOST_TURNS}}}"


@cache
def search_tool() -> WikiSearch:
    tool = WikiSearch(WikiSearch.Config(top_k=1))
    tool.name = "wiki_search"
    corpus = MiniWiki(MiniWiki.Config(split="eval")).corpus()
    tool.open(ToolResources(str(cache_dir()), {"eval": lambda: corpus}))
    return tool


def run(episode: Any) -> dict[str, Any]:
    """Play one episode over the OpenAI API, as the environment `tool_calling` does."""
    tool, messages = search_tool(), [{"role": "user", "content": episode.task["prompt"]}]
    headers = {"authorization": f"Bearer {episode.api_key}"}
    with httpx2.Client(headers=headers, timeout=600, verify=False) as client:  # reads no certificates
        for _ in range(MOST_TURNS):
            body = {"model": "policy", "messages": messages, "tools": [tool.schema()]}
            said = client.post(f"{episode.base_url}/chat/completions", json=body).json()["choices"][0]["message"]
            messages.append(said)
            calls, text = said.get("tool_calls") or [], said.get("content") or ""
            if not calls and (answers := ANSWER.findall(text)):
                return {"answer": answers[-1].strip()}
            for call in calls:
                (found,) = tool.search(json.loads(call["function"]["arguments"])["query"], 1)
                content = f"{found.title}\n{found.text}"
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
            if "<tool_call>" in text:
                broken = 'a tool call is not valid JSON; write {"name": ..., "arguments": {...}}'
                messages.append({"role": "tool", "tool_call_id": "none", "content": f"Error: {broken}."})
            elif not calls:
                messages.append({"role": "user", "content": "Error: no tool call and no answer."})
    return {"answer": None}


async def played(*overrides: str) -> list[Trajectory]:
    resolved = resolve("default", ["deterministic=true", *overrides], training=False)
    assembly = assemble(resolved, learning=False, task_sets=("eval",))
    try:
        await assembly.start()
        request = RolloutRequest(assembly.sets["eval"].tasks[:8], samples=2, round="same", split="eval")
        result = await assembly.rollouts.collect(request)
        assert not result.dropped, result.dropped[0].reason
        return result.trajectories
    finally:
        await assembly.close()


def test_a_program_plays_as_the_environment_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    built_in, program = asyncio.run(played()), asyncio.run(played(ENV, "tools=[]"))
    assert sum(len(one.turns) for one in built_in) > 2 * len(built_in), "they search before they answer"
    for one, other in zip(built_in, program, strict=True):
        assert [(part.ids, part.mask) for part in other.segments] == [(part.ids, part.mask) for part in one.segments]
        assert other.answer == one.answer
        assert other.rewards["exact_match"] == one.rewards["exact_match"]
