"""Programs that play episodes against a scripted policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agent_r1_gateway.dialects.fields import Dialect
from agent_r1_gateway.env import ProgramEnv
from agent_r1_gateway.program import Episode
from agent_r1_gateway.testing import play_programs
from agent_r1_gateway.wire import Refused
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import Task, Trajectory
from agent_r1_core.rollout import RolloutResult
from agent_r1_core.testing import ScriptedPolicy

TASK = Task("q", "Where was Karimo born?", ("Tavelo",))


class Client:
    """Asks the gateway as a program would, without an SDK."""

    def __init__(self, base_url: str, key: str) -> None:
        headers = {"authorization": f"Bearer {key}"}
        self.http = httpx2.Client(base_url=base_url, headers=headers, timeout=60, verify=False)  # reads no certificates

    def post(self, messages: list[dict[str, Any]], headers: dict[str, str] | None = None, **fields: Any) -> Any:
        body = {"model": "policy", "messages": messages} | fields
        return self.http.post("chat/completions", json=body, headers=headers or {})

    def ask(self, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """The assistant's message."""
        answer = self.post(messages, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["message"]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


def recorded(name: str) -> Any:
    """A file beside this one."""
    return json.loads((Path(__file__).parent / f"{name}.json").read_text("utf-8"))


def play(
    function: Callable[[Client, Episode], Any] | None = None,
    /,
    script: Any = ("Tavelo",),
    tasks: Sequence[Task] = (TASK,),
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> RolloutResult:
    """Play tasks by a program; its function gets a Client and the Episode."""

    def run(episode: Episode) -> Any:
        assert function is not None
        return function(Client(episode.base_url, episode.api_key), episode)

    with pytest.MonkeyPatch.context() as patch:
        if function is not None:
            options |= {"function": "a:function", "workers": 0}
            patch.setattr("agent_r1_gateway.env.function_named", lambda name: run)
        make = partial(ProgramEnv, ProgramEnv.Config(**options))
        return play_programs(make, ScriptedPolicy(script), tasks, Hermes(), (), **(settings or {}))


def play_one(*arguments: Any, **options: Any) -> Trajectory:
    """The trajectory of one episode, failed ones included."""
    result = play(*arguments, **options)
    (trajectory,) = [*result.trajectories, *result.dropped]
    return trajectory


def refused_field(dialect: Dialect, body: dict[str, Any]) -> str | None:
    """The field for which a body is refused, in one sentence and in the API's own format."""
    with pytest.raises(Refused) as caught:
        dialect.read(body)
    refused, sentence = caught.value, str(caught.value)
    assert (refused.status, refused.kind) == (400, "invalid_request_error")
    assert "\n" not in sentence
    assert not sentence.endswith(".")
    assert len(sentence) < 200
    error = {"type": "invalid_request_error", "message": sentence}
    if dialect.NAME == "messages":
        assert dialect.error(refused) == {"type": "error", "error": error, "request_id": None}
    else:
        assert dialect.error(refused) == {"error": error | {"param": refused.field, "code": None}}
    assert str(refused.field) in sentence
    return refused.field
