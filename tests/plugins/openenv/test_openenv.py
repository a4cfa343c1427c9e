"""OpenEnv's protocol: actions by call and by text, a server's limit of sessions, and what a server may do wrong."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import util
from typing import Any, ClassVar

import pytest
from agent_r1_openenv import server as connection
from agent_r1_openenv.env import OpenEnv
from agent_r1_openenv.source import OpenEnvTasks
from agent_r1_tool_formats.hermes import Hermes
from little_server import LittleServer
from pydantic import ValidationError

from agent_r1_core import Action, EnvServices, EpisodeError, Task, TaskError, ToolCall
from agent_r1_core.testing import TaskSourceContract, ToolEnvContract

TASK = Task("seed.3", "Begin.", seed=3)
NUMBER = 4
"""What is to be guessed in it."""


@pytest.fixture(scope="module")
def server() -> Iterator[LittleServer]:
    with closing(LittleServer()) as one:
        TestOpenEnv.config = {"url": one.url}
        TestOpenEnvTasks.config = {"url": one.url, "split": "train"}
        yield one


@pytest.fixture(autouse=True)
def _served(server: LittleServer) -> None:
    pass


def call(**fields: Any) -> str:
    return Hermes().render_call(ToolCall("act", fields))


class TestOpenEnv(ToolEnvContract):
    component = OpenEnv
    task = TASK
    tool_format = Hermes()
    actions: ClassVar = (call(number=1), "nothing", call(number="x"), call(number=NUMBER))


class TestOpenEnvTasks(TaskSourceContract):
    component = OpenEnvTasks


def env_of(server: LittleServer, **options: Any) -> OpenEnv:
    made = OpenEnv(OpenEnv.Config(url=server.url, **options), EnvServices(tool_format=Hermes()))
    made.name = "openenv"
    return made


def say(env: OpenEnv, text: str) -> Any:
    step = env.step(Action(text))
    return step, "".join(str(message["content"]) for message in step.observation.messages)


def test_an_action_is_a_call_by_the_servers_schema_or_text_that_fills_one_field(server: LittleServer) -> None:
    env = env_of(server, rules="Guess.", show="said", success_reward=1)
    (schema,) = env.tool_schemas()
    assert schema["function"]["name"] == "act"
    assert schema["function"]["parameters"]["properties"].keys() == {"number"}
    assert env.reset(TASK).messages == [{"role": "user", "content": "Guess.\nGuess! It is no 5."}]
    step, said = say(env, call(number=9))
    assert (said, step.reward, step.terminated, step.success) == ("Lower.", 0.0, False, False)
    step, said = say(env, call(number=NUMBER))
    assert (said, step.reward, step.terminated, step.success) == ("", 1.0, True, True)
    env.close()
    env.close()
    env = env_of(server, text="number")
    assert not env.tool_schemas()
    assert "<answer>...</answer>" in str(env.reset(TASK).messages[0]["content"])
    assert say(env, "4")[1].startswith("Error: no action; write it between")
    assert say(env, "<answer>four</answer>")[1].startswith("Error: the action is refused")
    env.close()


def test_what_is_wrong_with_an_action_is_said_and_a_broken_environment_fails_the_episode(server: LittleServer) -> None:
    env = env_of(server)
    env.reset(TASK)
    for text, sentence in (
        ("I wait.", "Error: an action is one call of act."),
        (call(number="nine"), "Error: the action is refused: number: Input should be a valid integer."),
        (call(number=1) + call(number=2), "Error: an action is one call of act."),
    ):
        step, said = say(env, text)
        assert said == sentence
        assert step.errors
        assert not step.terminated
    assert say(env, call(number=NUMBER))[0].terminated
    env.close()
    env = env_of(server)
    env.reset(TASK)
    with pytest.raises(EpisodeError, match="the environment of the OpenEnv server failed: boom"):
        env.step(Action(call(number=10)))
    env._session._timeout = 0.5
    with pytest.raises(EpisodeError, match="did not answer step: "):
        env.step(Action(call(number=0)))
    env.close()
    with pytest.raises(EpisodeError, match=r"has no field 'shown', only said; set env\.show to one"):
        env_of(server, show="shown").reset(TASK)


def test_a_server_that_forgets_its_seed_is_refused() -> None:
    with closing(LittleServer(forgetful=True)) as server:
        with (
            closing(env_of(server)) as env,
            pytest.raises(EpisodeError, match=r"begins differently twice with seed 3, .* env\.same_start=false"),
        ):
            env.reset(TASK)
        with closing(env_of(server, same_start=False)) as free:
            free.reset(TASK)


def test_no_server_and_no_package_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    away = OpenEnv(OpenEnv.Config(url="http://127.0.0.1:9/"), EnvServices(tool_format=Hermes()))
    with pytest.raises(EpisodeError, match=r"there is no OpenEnv server at ws://127.0.0.1:9/ws: "):
        away.reset(TASK)
    with pytest.raises(TaskError, match=r"there is no OpenEnv server at http://127.0.0.1:9/list_environments: "):
        OpenEnvTasks(OpenEnvTasks.Config(url="http://127.0.0.1:9")).load()
    monkeypatch.setattr(connection, "find_spec", lambda name: None if name == "websockets" else util.find_spec(name))
    assert "pip install 'agent-r1[openenv]'" in (OpenEnv.unavailable(away.config) or "")
    with pytest.raises(ValidationError, match="must begin with http"):
        OpenEnv.Config(url="127.0.0.1:8000")


def test_its_tasks_are_the_arguments_of_resets(server: LittleServer) -> None:
    (task, *_) = OpenEnvTasks(OpenEnvTasks.Config(url=server.url, split="test")).load()
    assert task.metadata["openenv"] == {"low": 5, "index": 0}
    begun = {env_of(server).reset(task).messages[0]["content"] for _ in range(2)}
    assert len(begun) == 1
    with pytest.raises(TaskError, match="lists 4 tasks of split=train"):
        OpenEnvTasks(OpenEnvTasks.Config(url=server.url, size=5)).load()


def play(server: LittleServer, seed: int) -> list[Any]:
    """A whole episode, as it is told."""
    with closing(env_of(server, show="said", rules="")) as env:
        told = [env.reset(Task(f"seed.{seed}", "Begin.", seed=seed)).messages]
        for number in (3, 7, 5):
            step = env.step(Action(call(number=number)))
            told.append((step.reward, step.terminated, step.observation.messages))
            if step.terminated:
                break
        return told


def test_a_full_server_is_waited_for_and_nothing_leaks() -> None:
    """64 episodes at once where the server takes 5, and as if each were alone."""
    with closing(LittleServer(sessions=5)) as server:
        alone = [play(server, seed) for seed in range(80)]
        before = len(os.listdir("/proc/self/fd")), threading.active_count()
        with ThreadPoolExecutor(64) as threads:
            assert list(threads.map(lambda seed: play(server, seed), range(80))) == alone
        assert server.most_open == 5
        for _ in range(1200):
            if server.open == 0 and len(os.listdir("/proc/self/fd")) <= before[0]:
                break
            threading.Event().wait(0.05)
        assert server.open == 0
        assert threading.active_count() <= before[1], "a thread of a test before may have ended"
