"""The environment of one episode."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable

import pytest
from agent_r1_tool_formats.hermes import Hermes
from stage import TOKENIZER

from agent_r1_core import EnvConfig, EnvServices, Task, Tool, ToolArguments, ToolCall, ToolContext, ToolEnv
from agent_r1_core.contracts.tool import ToolResources
from agent_r1_core.errors import EpisodeError
from agent_r1_core.rollout.settings import RolloutSettings
from agent_r1_core.rollout.world import EpisodeTools, ToolTexts, World
from agent_r1_core.tools.threads import ThreadPool
from agent_r1_core.tools.tool_runner import ToolRunner


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_environment_that_is_made_too_late_is_closed_once(asynchronous):
    closing, made = threading.Semaphore(0), threading.Event()
    closed: list[ToolEnv] = []

    class Browser(ToolEnv):
        def close(self) -> Awaitable[None] | None:
            return self.later() if asynchronous else self.now()

        def now(self) -> None:
            closed.append(self)
            closing.release()

        async def later(self) -> None:
            await asyncio.sleep(0)
            self.now()

    def make(services: EnvServices) -> ToolEnv:
        made.wait(60)
        return Browser(EnvConfig(), services)

    async def give_up() -> None:
        world = World(RolloutSettings(make, make_timeout=0.05), ThreadPool(1), "e1")
        with pytest.raises(EpisodeError, match="making the environment took longer"):
            await world.make(EnvServices(), ToolTexts(TOKENIZER, None))
        await world.close()

    asyncio.run(give_up())
    assert closed == []
    made.set()
    assert closing.acquire(timeout=30), "nobody closed it"
    assert len(closed) == 1


def test_every_environment_shows_the_schemas_of_its_own_tools():
    def switch(default: object) -> list[dict[str, object]]:
        parameters = {"type": "object", "properties": {"on": {"default": default}}}
        return [{"type": "function", "function": {"name": "turn", "description": "Turns.", "parameters": parameters}}]

    texts = ToolTexts(TOKENIZER, Hermes())
    for default, said in ((1, "1"), (True, "true"), (True, "true"), (1.0, "1.0"), (1, "1")):  # equal in Python
        schemas, text = texts.describe(switch(default))
        assert f'"default": {said}' in json.dumps(schemas)
        assert f'"default": {said}' in text
    assert texts.describe([]) == ([], "")
    assert ToolTexts(TOKENIZER, None).describe(switch(1)) == (switch(1), "")


async def test_calls_of_a_tool_that_holds_something_for_an_episode_take_turns_until_it_is_released():
    noted: list[str] = []

    class Session(Tool):
        name = "session"

        class Arguments(ToolArguments):
            said: str

        async def run(self, arguments: Arguments, context: ToolContext) -> str:
            noted.append(f"{context.episode} begins {arguments.said}")
            await asyncio.sleep(0)
            noted.append(f"{context.episode} ends {arguments.said}")
            return arguments.said

        def release(self, context: ToolContext) -> None:
            noted.append(f"{context.episode} is over")

    runner = ToolRunner({"session": Session()})
    await runner.start(ToolResources(""))
    try:
        tools = EpisodeTools(runner, "e1", Task("t", "?"), 1)
        results = await tools([ToolCall("session", {"said": said}) for said in "ab"])
        await tools.release()
        await EpisodeTools(runner, "e2", Task("t", "?"), 1).release()
    finally:
        await runner.close()
    assert [result.text for result in results] == ["a", "b"]
    assert noted == ["e1 begins a", "e1 ends a", "e1 begins b", "e1 ends b", "e1 is over"]
