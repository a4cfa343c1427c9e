"""Programs that play episodes against a scripted policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from agent_r1_gateway import program
from agent_r1_gateway.env import ProgramEnv
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import Sampling, Task, Trajectory
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutResult, RolloutSettings
from agent_r1_core.testing import ScriptedPolicy, tiny_tokenizer

TASK = Task("q", "Where was Karimo born?", ("Tavelo",))


class Client:
    """Asks the gateway as a program would, without an SDK."""

    def __init__(self, base_url: str, key: str) -> None:
        self.http = httpx2.Client(base_url=base_url, headers={"authorization": f"Bearer {key}"}, timeout=20)

    def post(self, messages: list[dict[str, Any]], headers: dict[str, str] | None = None, **fields: Any) -> Any:
        body = {"model": "policy", "messages": messages, **fields}
        return self.http.post("chat/completions", json=body, headers=headers or {})

    def ask(self, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """The assistant's message."""
        answer = self.post(messages, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["message"]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def play() -> Callable[..., RolloutResult]:
    """Play tasks by a program; its function gets a Client and the Episode."""

    def play(
        function: Callable[[Client, program.Episode], Any] | None = None,
        script: Any = ("Tavelo",),
        tasks: tuple[Task, ...] = (TASK,),
        samples: int = 1,
        rewards: Any = (),
        max_retries: int = 0,
        deterministic: bool = False,
        engine: ScriptedPolicy | None = None,
        **options: Any,
    ) -> RolloutResult:
        if function is not None:
            options["function"] = "tests:function"
        config = ProgramEnv.Config(**options)

        def make(services: Any) -> ProgramEnv:
            return ProgramEnv(config, services)

        settings = RolloutSettings(
            make_env=make,
            tool_format=Hermes(),
            sampling=Sampling(max_new_tokens=120),
            rewards=list(rewards),
            max_retries=max_retries,
            deterministic=deterministic,
            max_episodes=512,
        )
        collector = Collector(engine or ScriptedPolicy(script), ChatTokenizer(tiny_tokenizer()), settings)

        def run(episode: program.Episode) -> Any:
            assert function is not None
            return function(Client(episode.base_url, episode.api_key), episode)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("agent_r1_gateway.env.function_named", lambda name: run)
            try:
                return asyncio.run(collector.collect(RolloutRequest(tasks, samples)))
            finally:
                collector.close()

    return play


@pytest.fixture
def play_one(play: Callable[..., RolloutResult]) -> Callable[..., Trajectory]:
    """The trajectory of one episode, failed ones included."""

    def play_one(*arguments: Any, **options: Any) -> Trajectory:
        result = play(*arguments, **options)
        (trajectory,) = [*result.trajectories, *result.dropped]
        return trajectory

    return play_one
