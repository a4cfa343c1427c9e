"""LAW 1 and 2, of programs: whatever one does with its history, each id sampled for it is trained exactly once, in the
context that it was sampled in; nothing else is trained."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agent_r1_gateway.env import ProgramEnv
from agent_r1_gateway.line import Asked, Line
from agent_r1_gateway.program import Episode
from agent_r1_gateway.testing import play_programs
from agent_r1_grpo.grpo import GRPO
from agent_r1_tool_formats.hermes import Hermes
from agent_r1_transformers.engine import TransformersEngine
from bad_tools import PATIENCE
from stage import Stage

from agent_r1_core import Sampling, Task, Trajectory
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import EngineModel
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import ScriptedPolicy, tiny_tokenizer

TOOL = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}
CALL = '<tool_call>\n{"name": "look", "arguments": {"sure": true, "most": 1, "who": "Karimo"}}\n</tool_call>'


class Client:
    """A program's client; `said` are the assistant's messages."""

    def __init__(self, episode: Episode) -> None:
        headers = {"authorization": f"Bearer {episode.api_key}"}
        self.http = httpx2.Client(base_url=episode.base_url, headers=headers, timeout=30, verify=False)

    def ask(self, messages: list[Any], headers: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
        body = {"model": "policy", "messages": messages, **fields}
        answer = self.http.post("chat/completions", json=body, headers=headers or {})
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["message"]  # type: ignore[no-any-return]

    def leave(self, messages: list[Any], when: threading.Event) -> None:
        """Ask, and wait no longer once it is time."""
        at = self.http.base_url
        asking = http.client.HTTPConnection(at.host, at.port)
        headers = {"authorization": self.http.headers["authorization"], "content-type": "application/json"}
        body = json.dumps({"model": "policy", "messages": messages})
        asking.request("POST", f"{at.path}chat/completions", body, headers)
        assert when.wait(PATIENCE)
        asking.close()


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def calls_a_tool(client: Client, rewrite: Callable[[str], str] = lambda arguments: arguments) -> None:
    said = client.ask([user("one")], tools=[TOOL])
    for call in said.get("tool_calls") or ():
        call["function"]["arguments"] = rewrite(call["function"]["arguments"])
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "it"} for call in said.get("tool_calls") or ()]
    client.ask([user("one"), said, *(results or [user("two")])], tools=[TOOL])


def writes_python(client: Client) -> None:
    calls_a_tool(client, lambda text: repr(json.loads(text)))


def writes_floats_in_another_order(client: Client) -> None:
    calls_a_tool(client, lambda text: json.dumps(dict(sorted(json.loads(text).items()))).replace(": 1,", ": 1.0,"))


def changes_a_boolean(client: Client) -> None:
    calls_a_tool(client, lambda text: text.replace("true", "1"))


def sums_up(client: Client) -> None:
    history = [user("one"), client.ask([user("one")])]
    client.ask([*history, user("two")])
    client.ask([user("so far: one, two"), user("three")])


def edits_its_past(client: Client) -> None:
    history = [user("one"), client.ask([user("one")])]
    history += [user("two"), client.ask([*history, user("two")])]
    client.ask([*history[:2], user("another two")])
    client.ask([user("one"), {"role": "assistant", "content": "What I never said."}, *history[2:], user("three")])


def has_two_sub_agents(client: Client) -> None:
    def work(name: str) -> None:
        history: list[Any] = [user(f"I am {name}")]
        for number in range(3):
            history += [client.ask(history), user(f"{number}")]

    with ThreadPoolExecutor(2) as both:
        list(both.map(work, ("Ada", "Bob")))


def retries(client: Client) -> None:
    said = client.ask([user("one")])
    again = client.ask([user("one")], {"x-stainless-retry-count": "1"})
    assert again == said
    client.ask([user("one"), again, user("two")])


def asks_twice(client: Client) -> None:
    client.ask([user("one")])
    client.ask([user("one")])
    client.ask([user("one")], {"idempotency-key": "a"})
    client.ask([user("one")], {"idempotency-key": "b"})


def changes_its_tools(client: Client) -> None:
    history = [user("one"), client.ask([user("one")], tools=[TOOL])]
    client.ask([*history, user("two")])


PROGRAMS = {
    calls_a_tool: [0, 0],
    writes_python: [0, 0],
    writes_floats_in_another_order: [0, 0],
    retries: [0, 0],
    changes_a_boolean: [0, 1],
    changes_its_tools: [0, 1],
    sums_up: [0, 0, 1],
    edits_its_past: [0, 0, 1, 2],
    has_two_sub_agents: None,
    asks_twice: [0, 1, 2, 3],
}
"""Of each, the segments of its turns."""


def played(program: Callable[[Client], None], engine: ScriptedPolicy, monkeypatch: Any, **settings: Any) -> Trajectory:
    monkeypatch.setattr("agent_r1_gateway.env.function_named", lambda name: lambda episode: program(Client(episode)))
    env = partial(ProgramEnv, ProgramEnv.Config(function="a:b", workers=0))
    result = play_programs(env, engine, [Task("q", "?")], Hermes(), **settings)
    assert not result.dropped, result.dropped[0].reason
    return result.trajectories[0]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_was_sampled_for_a_program_is_trained_once(program, monkeypatch):
    engine = ScriptedPolicy(lambda cue: CALL if "tools" in cue.prompt.casefold() else f"answer {cue.turn}")
    trajectory = played(program, engine, monkeypatch)
    turns = [turn.segment for turn in trajectory.turns]
    assert PROGRAMS[program] in (None, turns)
    assert sorted(set(turns)) == list(range(len(trajectory.segments)))
    for turn, request in zip(trajectory.turns, engine.requests, strict=True):
        segment = trajectory.segments[turn.segment]
        assert tuple(segment.ids[: turn.start]) == request.ids
        assert all(segment.mask[turn.start : turn.stop])
    assert sum(turn.tokens for turn in trajectory.turns) == trajectory.action_tokens


def test_sub_agents_keep_apart_and_are_answered_at_the_same_time(monkeypatch):
    """And recorded in the order in which they asked, though the one that asked last is answered first."""

    class Together(ScriptedPolicy):
        there = asyncio.Event()

        async def generate(self, request):
            generation = await super().generate(request)
            number = len(self.requests)
            if number == 2:
                self.there.set()
            await asyncio.wait_for(self.there.wait(), 25)
            await asyncio.sleep(0.01 * (number % 2))
            return generation

    engine = Together(lambda cue: f"answer {cue.turn}")
    trajectory = played(has_two_sub_agents, engine, monkeypatch)
    assert sorted(turn.segment for turn in trajectory.turns) == [0, 0, 0, 1, 1, 1]
    assert [turn.info["request"]["number"] for turn in trajectory.turns] == list(range(6))
    assert [turn.text for turn in trajectory.turns[:2]] == ["answer 0", "answer 1"]
    for turn, request in zip(trajectory.turns, engine.requests, strict=True):
        assert tuple(trajectory.segments[turn.segment].ids[: turn.start]) == request.ids


def test_the_tools_of_a_request_are_read_with_it(monkeypatch):
    engine = ScriptedPolicy(lambda cue: "yes" if "look" in cue.prompt else "no")
    trajectory = played(changes_its_tools, engine, monkeypatch)
    assert [turn.text for turn in trajectory.turns] == ["yes", "no"]


@pytest.mark.parametrize("deterministic", [False, True])
def test_nothing_is_trained_of_a_reply_that_nobody_reads(monkeypatch, deterministic):
    """Its generation is cancelled, but in deterministic mode, before the program asks anything else."""

    begun, left, cancelled = threading.Event(), threading.Event(), threading.Event()
    leave = Line.leave

    def leaving(self: Line, asked: Asked) -> None:
        if not asked.reply.done():
            left.set()
        leave(self, asked)

    class Slow(ScriptedPolicy):
        async def generate(self, request):
            generation = await super().generate(request)
            try:
                if len(self.requests) == 2:
                    while not (deterministic and left.is_set()):
                        await asyncio.sleep(0.01)
                        begun.set()  # by now someone waits for the client to leave
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return generation

    def leaves(client: Client) -> None:
        history = [user("one"), client.ask([user("one")])]
        client.leave([user("two")], begun)
        assert left.wait(PATIENCE)
        assert deterministic or cancelled.wait(PATIENCE)
        client.ask([*history, user("three")])

    monkeypatch.setattr(Line, "leave", leaving)
    engine = Slow(lambda cue: f"answer {len(engine.requests)}")
    trajectory = played(leaves, engine, monkeypatch, deterministic=deterministic)
    assert len(engine.requests) == 3
    assert cancelled.is_set() is not deterministic
    assert [turn.segment for turn in trajectory.turns] == [0, 0]
    assert trajectory.turns[0].info["left_out"][0]["why"] == "its client left"


def test_nothing_is_trained_of_a_reply_that_was_ready_before_its_clients_end_was_seen(monkeypatch):
    sent, gone = threading.Event(), threading.Event()
    sent.set()

    class Prompt(ScriptedPolicy):
        async def generate(self, request):
            while not gone.is_set():
                await asyncio.sleep(0)
            return await super().generate(request)

    def leaves(client: Client) -> None:
        for number in range(10):
            gone.clear()
            client.leave([user(f"nobody reads {number}")], sent)
            gone.set()
            client.ask([user(f"question {number}")])

    assert len(played(leaves, Prompt(lambda cue: "answer"), monkeypatch).turns) == 10


def test_a_call_that_is_only_spelled_is_text(monkeypatch):
    class Spelling(ScriptedPolicy):
        def _encode(self, text):
            return [index for letter in text for index in self._tokenizer.encode(letter, add_special_tokens=False)]

    said = []

    def gives_it_back(client):
        said.append(client.ask([user("one")], tools=[TOOL]))
        client.ask([user("two"), said[0], user("three")])

    trajectory = played(gives_it_back, Spelling([CALL]), monkeypatch)
    assert not said[0].get("tool_calls")
    assert said[0]["content"] == CALL
    control = ChatTokenizer(tiny_tokenizer()).control
    again = {control.texts[index] for index in control.ids_of(trajectory.segments[1].ids)}
    assert again == {"<|im_start|>", "<|im_end|>"}


def test_the_learner_finds_the_log_probs_of_every_segment(noise: Path, monkeypatch):
    """LAW 2, over segments that fork, begin anew and take turns."""

    def all_of_them(client: Client) -> None:
        for program in (sums_up, edits_its_past, has_two_sub_agents, asks_twice):
            program(client)

    monkeypatch.setattr("agent_r1_gateway.env.function_named", lambda name: lambda ep: all_of_them(Client(ep)))

    config = ProgramEnv.Config(function="a:b", workers=0, max_turns=30)
    engine, tokenizer = TransformersEngine(), ChatTokenizer.from_folder(noise)
    asyncio.run(engine.start(EngineModel(str(noise), "float32", "cpu")))
    options: dict[str, Any] = {"sampling": Sampling(max_new_tokens=8), "max_retries": 0}
    stage = Stage(engine, tokenizer=tokenizer, make_env=partial(ProgramEnv, config), **options)
    result = stage.play([Task("q", "?")], 2)
    assert not result.dropped, result.dropped[0].reason
    for number, trajectory in enumerate(result.groups[0].trajectories):
        assert len(trajectory.segments) >= 9
        trajectory.reward = float(number)
    metrics = Learner(Policy.load(noise), GRPO(), TrainingConfig(lr=0.05)).update(result.groups, 1).metrics
    assert metrics["logprob_gap"] < 1e-4
    assert metrics["update/grad_norm"] > 1e-3
