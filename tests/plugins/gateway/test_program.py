"""What programs do becomes exact trajectories, and their environment keeps the contract of environments."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import nan
from pathlib import Path
from typing import ClassVar

import httpx2
import psutil
import pytest
from agent_r1_gateway.config import ProgramConfig
from agent_r1_gateway.dialects import chat
from agent_r1_gateway.env import ProgramEnv
from agent_r1_gateway.line import Line
from agent_r1_gateway.program import _noted
from agent_r1_gateway.server import shared_gateway
from agent_r1_gateway.speech import reply_of
from agent_r1_gateway.wire import ChatMessage, ChatRequest, Reply
from agent_r1_gateway.worker import _START
from agent_r1_tool_formats.hermes import Hermes
from agent_r1_tool_formats.search_tags import SearchTags

from agent_r1_core import Action, EndStatus, Task
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.rollout.demonstration import BadDemonstration, check_single
from agent_r1_core.testing import ToolEnvContract, tiny_tokenizer

from .conftest import TASK, play, play_one, user


class TestProgram(ToolEnvContract):
    component = ProgramEnv
    config: ClassVar = {"function": "agent_r1_gateway.testing:echo"}
    actions = ("one", "two", "three")


LOOK = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}},
}
CALL = '<tool_call>\n{"name": "look", "arguments": {"name": "Karimo", "exact": false, "most": 1}}\n</tool_call>'


@pytest.fixture(scope="module")
def tokenizer():
    return ChatTokenizer(tiny_tokenizer())


def looks_up(client, episode):
    """Calls a tool, and answers."""
    messages = [user(episode.task["prompt"])]
    asked = client.ask(messages, tools=[LOOK])
    (call,) = asked["tool_calls"]
    messages += [asked, {"role": "tool", "tool_call_id": call["id"], "content": "Karimo was born in Tavelo."}]
    answer = client.ask(messages, tools=[LOOK])
    return {"reward": 0.5, "answer": answer["content"], "found": 1}


def test_a_program_with_a_tool_is_one_segment_of_sampled_ids(tokenizer):
    trajectory = play_one(looks_up, script=[CALL, "Tavelo"])
    (segment,) = trajectory.segments
    assert (trajectory.status, trajectory.reason, trajectory.answer) == (EndStatus.TERMINATED, "answer", "Tavelo")
    sampled = [index for index, kept in zip(segment.ids, segment.mask, strict=True) if kept]
    assert tokenizer.decode(sampled) == f"{CALL}<|im_end|>Tavelo<|im_end|>"
    text = tokenizer.decode(segment.ids)
    assert "Tools: look" in text.partition("Where was")[0]
    assert text.count("Karimo was born in Tavelo.") == 1
    first, second = trajectory.turns
    assert [(call.name, call.arguments) for call in first.calls] == [
        ("look", {"name": "Karimo", "exact": False, "most": 1})
    ]
    assert trajectory.total_reward == second.reward == 0.5
    assert second.info["found"] == 1
    assert second.info["request"] == {"api": "chat", "number": 1, "context": "continues", "retries": 0, "after": 0}


@pytest.mark.parametrize("thinking", ["separate", "text"])
def test_a_reply_that_begins_another_context_is_read_as_it_was_sampled(tokenizer, thinking):
    sampled = f"<think>I  look.</think>{CALL}"

    def forgets(client, episode):
        asked = client.ask([user("Long ago."), user(episode.task["prompt"])], tools=[LOOK])
        assert asked["content"] == ("<think>I  look.</think>" if thinking == "text" else None)
        assert asked.get("reasoning_content") == (None if thinking == "text" else "I  look.")
        found = {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": "Nothing."}
        client.ask([user(episode.task["prompt"]), asked, found], tools=[LOOK])

    trajectory = play_one(forgets, script=[sampled, "Tavelo"], thinking=thinking)
    first, second = [tokenizer.decode(segment.ids) for segment in trajectory.segments]
    assert "Long ago." in first
    assert "Long ago." not in second
    assert f"{sampled}<|im_end|>" in first
    assert f"{sampled}<|im_end|>" in second


@pytest.mark.parametrize("refer", ["to the reply", "to its items"])
def test_a_program_refers_to_what_it_was_answered(tokenizer, refer):
    def run(client, episode):
        def respond(items, **fields):
            answer = client.http.post(
                "responses",
                json={"model": "policy", "input": items, "tools": [{"type": "function", **LOOK["function"]}]} | fields,
            )
            return answer.status_code, answer.json()

        asked = {"role": "user", "content": episode.task["prompt"]}
        _, reply = respond(episode.task["prompt"])
        thought, text, call = reply["output"]
        found = {"type": "function_call_output", "call_id": call["call_id"], "output": "Nothing."}
        if refer == "to the reply":
            _, reply = respond([found], previous_response_id=reply["id"])
            _, reply = respond("Say more.", previous_response_id=reply["id"])
        else:
            references = [{"type": "item_reference", "id": item["id"]} for item in (thought, text)]
            items = [asked, *references, call, found]
            _, reply = respond(items)
            references = [{"type": "item_reference", "id": item["id"]} for item in reply["output"]]
            _, reply = respond([*items, *references, {"role": "user", "content": "Say more."}])
        status, unknown = respond("Hm?", previous_response_id="resp_of another")
        assert (status, unknown["error"]["code"]) == (400, "previous_response_not_found")
        status, unknown = respond([{"type": "item_reference", "id": "msg_of another"}, asked])
        assert (status, unknown["error"]["param"]) == (400, "input[0]")
        return {"answer": reply["output"][-1]["content"][0]["text"]}

    trajectory = play_one(run, script=[f"<think>I  look.</think>So:{CALL}", "Tavelo", "More"])
    assert (trajectory.reason, trajectory.answer) == ("answer", "More")
    (segment,) = trajectory.segments
    sampled = [index for index, kept in zip(segment.ids, segment.mask, strict=True) if kept]
    assert tokenizer.decode(sampled) == f"<think>I  look.</think>So:{CALL}<|im_end|>Tavelo<|im_end|>More<|im_end|>"
    assert tokenizer.decode(segment.ids).count(TASK.prompt) == 1


def test_requests_say_how_their_context_came_about(tokenizer):
    def run(client, episode):
        first = [user("one"), client.ask([user("one")])]
        client.ask([*first, user("two")])
        client.ask([*first, user("another two")])
        call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
        never_said = {"role": "assistant", "content": "I never said.", "tool_calls": [call]}
        client.ask([user("one"), never_said, {"role": "tool", "tool_call_id": "c", "content": "It"}])
        client.ask([user("Summary: one and two. Go on.")])

    trajectory = play_one(run, script=lambda cue: f"said {cue.turn}")
    assert [(turn.segment, turn.info["request"]["context"]) for turn in trajectory.turns] == [
        (0, "first request"),
        (0, "continues"),
        (1, "continues"),
        (2, "an edited past"),
        (3, "a new conversation"),
    ]
    written = 'I never said.\n<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call><|im_end|>'
    assert written in tokenizer.decode(trajectory.segments[2].ids)


def test_a_key_of_a_request_names_it_and_no_other():
    answers = []

    def run(client, episode):
        keyed = {"idempotency-key": "a"}
        answers.extend(client.post([user("Ho")], headers=keyed).json()["id"] for _ in range(2))
        answers.append(client.post([user("Other")], headers=keyed).status_code)

    trajectory = play_one(run)
    first, again, other = answers
    assert (first, other) == (again, 409)
    assert len(trajectory.turns) == 1


def test_a_retry_after_the_reply_is_counted():
    def run(client, episode):
        client.ask([user("one")])
        client.post([user("one")], {"x-stainless-retry-count": "1"})

    (turn,) = play_one(run).turns
    assert turn.info["request"]["retries"] == 1


def test_a_retry_repeats_the_request_of_its_own_client():
    line = Line(lambda asked: None)

    def ask(retry=0):
        request = ChatRequest("policy", (ChatMessage("user", "Hi"),))
        return line.ask(request, "chat", {"x-stainless-retry-count": str(retry)})

    first, second = ask(), ask()
    line.leave(first)
    assert ask(1) is first
    line.leave(first)
    first.give_up()
    third = ask(1)
    assert len({first.number, second.number, third.number}) == 3
    second.reply.set_result(Reply("r", 0))
    line.leave(second)
    assert ask(1) is second


PLAYS = """
import asyncio, sys
from agent_r1_gateway.process import Process
async def play():
    process = Process([sys.executable, "-c", *sys.argv[1:]], {}, 1000)
    await process.start({"prompt": "?"}, "http://127.0.0.1:1", "key", print)
    await asyncio.sleep(600)
asyncio.run(play())
"""
WAITS = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"], process_group=0)
pathlib.Path(sys.argv[1] + ".new").write_text(f"{os.getpid()} {child.pid} {os.getcwd()}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


def test_programs_of_a_process_that_was_killed_end_and_their_folders_go(tmp_path):
    told = tmp_path / "told"
    playing = subprocess.Popen([sys.executable, "-c", PLAYS, WAITS, told])
    try:
        while not told.exists() and playing.poll() is None:
            time.sleep(0.05)
    finally:
        playing.kill()
        playing.wait()
    program, child, folder = told.read_text().split(" ", 2)

    def lives(process):
        return psutil.pid_exists(int(process)) and psutil.Process(int(process)).status() != psutil.STATUS_ZOMBIE

    deadline = time.monotonic() + 60
    while (left := [lives(program), lives(child), Path(folder).exists()]) != [False] * 3:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_rewards_of_turns_reach_their_turns():
    def run(client, episode):
        client.ask([user("one")])
        episode.reward(0.25)
        client.ask([user("two")])
        client.http.post(episode.anthropic_base_url + "/reward", json={"reward": 0.5})
        return 1

    trajectory = play_one(run)
    assert [turn.reward for turn in trajectory.turns] == [0.25, 1.5]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"reward": "0.5"}', "the reward '0.5' is no number between"),
        (b'{"rewrd": 0.5}', "the reward None is no number between"),
        (b'{"reward": 0.5, "turn": 0}', "the reward 0.5 comes with 'turn', which has no meaning here"),
        (b"reward=0.5", "the body is not JSON"),
        (None, "the reward nan is no number between"),
    ],
)
def test_a_reward_that_cannot_count_fails_the_episode_though_the_program_does_not_look(body, why):
    def run(client, episode):
        client.ask([user("one")])
        with suppress(Exception):
            episode.reward(float("nan")) if body is None else client.http.post("reward", content=body)
        client.ask([user("two")])
        return 1

    trajectory = play_one(run)
    assert trajectory.status == EndStatus.FAILED
    assert trajectory.reason.startswith(f"a reward that the program reported was refused: {why}")


def test_fields_without_effect_are_told_once(caplog):
    def run(client, episode):
        for more in ({"seed": 1}, {"temperature": 0}, {"seed": 2, "user": "me"}):
            client.ask([user("one")], **more)
        return 1

    shared_gateway()._mentioned.clear()
    play_one(run)
    assert [text.rpartition(": ")[2] for text in caplog.messages if "no effect" in text] == [
        "seed",
        "temperature",
        "user",
    ]


def test_a_reward_with_the_key_of_no_episode_is_noted_once(caplog):
    def run(client, episode):
        client.ask([user("one")])
        for _ in range(2):
            httpx2.post(episode.anthropic_base_url + "/reward", json={"reward": 0.5})
        return 1

    shared_gateway()._mentioned.discard("reward")
    assert play_one(run).total_reward == 1
    assert [text for text in caplog.messages if "counts for no episode" in text] == [
        "a reward counts for no episode: nobody here has this API key, or its episode has ended; use the key that "
        "you were given"
    ]


def test_only_an_episode_of_one_conversation_that_begins_with_its_task_is_kept_as_one():
    def one_talk(client, episode):
        history = [{"role": "system", "content": "Be brief."}, user(episode.task["prompt"])]
        client.ask([*history, client.ask(history), user("Sure?")])

    def two_talks(client, episode):
        client.ask([user(episode.task["prompt"])])
        client.ask([user("Another.")])

    check_single(play_one(one_talk))
    for program in (two_talks, lambda client, episode: client.ask([user("Plan: " + episode.task["prompt"])])):
        with pytest.raises(BadDemonstration, match="several contexts, or another beginning than the task's"):
            check_single(play_one(program))


def test_what_is_not_the_agents_work_leaves_no_turn():
    def run(client, episode):
        history = [user("one"), client.ask([user("one")])]
        client.post([*history, user("Write a title.")])
        client.ask([*history, user("two")])
        client.post([user("Sum up")], model="summariser")
        episode.reward(0.25)
        return {"reward": 1, "answer": "Tavelo", "success": True}

    trajectory = play_one(run, untrained=["^Write a title"], models={"sum*": "untrained"})
    assert [turn.segment for turn in trajectory.turns] == [0, 0]
    assert len(trajectory.segments) == 1
    assert (trajectory.answer, trajectory.success, trajectory.reason) == ("Tavelo", True, "answer")
    first, second = trajectory.turns
    assert (first.reward, second.reward) == (0.0, 1.25)
    assert [turn.info["left_out"][0]["reply"] for turn in trajectory.turns] == ["Tavelo", "Tavelo"]


def test_a_model_that_is_elsewhere_is_asked_there():
    answers = []

    def judge(client, episode):
        there = [user("Is it right?")]

        def outer(inner_client, inner):
            answers.append(inner_client.post(there, model="judge-1").json()["choices"][0]["message"]["content"])
            inner_client.ask([user("Hi")])

        options = {"models": {"judge*": episode.base_url}, "models_key": "KEY_OF_THE_JUDGE"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KEY_OF_THE_JUDGE", episode.api_key)
            inner = play_one(outer, script=["Lorem"], **options)
        assert (inner.reason, len(inner.turns)) == ("env", 1)

    outside = play_one(judge, script=["It is."])
    assert answers == ["It is."]
    assert len(outside.turns) == 1


@contextmanager
def elsewhere(handler):
    """The address of another server."""
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Busy(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(429)
        self.send_header("retry-after", "7")
        self.end_headers()


def test_whoever_asks_other_models_alone_hears_that_the_policy_was_not_asked(monkeypatch):
    monkeypatch.setenv("KEY_OF_THE_JUDGE", "key")
    with elsewhere(Busy) as address:
        options = {"models": {"*": address}, "models_key": "KEY_OF_THE_JUDGE"}
        trajectory = play_one(lambda client, episode: [client.post([user("Hi")])].clear(), **options)
    assert trajectory.reason.startswith(
        "the program ended before it asked the policy: 1 of its requests went to other models"
    )
    config = ProgramConfig(command=["true"], **options)
    assert ProgramEnv.unavailable(config) is None
    monkeypatch.delenv("KEY_OF_THE_JUDGE")
    assert "KEY_OF_THE_JUDGE, which is not set" in ProgramEnv.unavailable(config)


class Half(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b"{")


@pytest.mark.parametrize(("handler", "retry_after"), [(Half, None), (Busy, "7")])
def test_an_answer_that_breaks_off_elsewhere_breaks_off_here_and_a_busy_server_says_when_to_ask(
    caplog, handler, retry_after
):
    told = []

    def asks(client, episode):
        try:
            told.append(client.post([user("Hi")], model="judge").headers["retry-after"])
        except httpx2.HTTPError:
            told.append(None)
        client.ask([user("Hi")])

    with elsewhere(handler) as address:
        play_one(asks, models={"judge": address})
    assert told == [retry_after]
    assert not any(record.exc_info for record in caplog.records), "no traceback"


def test_budgets_of_requests_and_of_the_episode_hold_and_the_program_is_told(caplog):
    statuses = []
    _noted.clear()

    def run(client, episode):
        answer = client.post([user("Hi")], max_tokens=3, logprobs=True).json()
        assert answer["choices"][0]["finish_reason"] == "length"
        assert [one["logprob"] for one in answer["choices"][0]["logprobs"]["content"]] == [-0.5] * 3
        for stop, kept in ((["rem"], "Lo"), (["ip", "em "], "Lor")):
            stopped = client.post([user("Hi")], stop=stop).json()["choices"][0]
            assert (stopped["message"]["content"], stopped["finish_reason"]) == (kept, "stop")
        statuses.extend(client.post([user("Hi")] * count).status_code for count in range(1, 6))

    trajectory = play_one(run, script=["Lorem ipsum dolor"], max_turns=5)
    assert (trajectory.status, trajectory.reason) == (EndStatus.TRUNCATED, "max_turns")
    assert (trajectory.turns[0].tokens, len(trajectory.turns), statuses[:2]) == (3, 5, [200, 200])
    assert "was cut at" not in caplog.text
    play_one(lambda client, episode: client.ask([user("Hi")]), script=["x" * 999])
    assert "was cut at 256 tokens; raise engine.max_new_tokens" in caplog.text


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"messages": [user("Hi")], "model": "policy", "n": 2}, 400, "n"),
        ([], 400, "object"),
        ("[" * 100_000, 400, "JSON"),
        ("x" * (33 * 2**20), 413, "bytes"),
    ],
)
def test_what_cannot_be_honoured_is_refused_and_no_turn(body, status, sentence):
    kept = []

    def run(client, episode):
        text = body if isinstance(body, str) else json.dumps(body)
        assert [model["id"] for model in client.http.get("models").json()["data"]] == ["policy"]
        assert client.http.get("models/any/name").json()["id"] == "any/name"
        kept.extend((client, client.http.post("chat/completions", content=text)))
        client.ask([user("Hi")])

    trajectory = play_one(run)
    client, answer = kept
    assert (answer.status_code, trajectory.reason) == (status, "env")
    assert sentence in answer.json()["error"]["message"]
    assert len(trajectory.turns) == 1
    for late in (client.post([user("Hi")]), client.http.get("models")):
        assert late.status_code == 401, "a key opens a running episode only"
        assert "its episode has ended" in late.json()["error"]["message"]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda client, episode: None, "ended before it asked"),
        (
            lambda client, episode: [client.ask([user("Hi")]), 1 / 0],
            "ZeroDivisionError: division by zero (conftest.py, line ",
        ),
        (lambda client, episode: _later(client), "ZeroDivisionError: division by zero (test_program.py, line "),
        (lambda client: None, "takes 1 positional argument but 2 were given"),
        (
            lambda client, episode: client.post([user("ho " * 5000)]),
            "the program's first request has 15019 tokens, which do not fit into env.max_tokens=4096; raise it",
        ),
        (lambda client, episode: [client.ask([user("Hi")]), {1}][1:], "the program's result is"),
    ],
)
def test_a_function_that_misbehaves_fails_its_episode(function, reason):
    trajectory = play_one(function)
    assert trajectory.status is EndStatus.FAILED
    assert reason in trajectory.reason


async def _later(client):
    client.ask([user("Hi")])
    return 1 / 0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no_such:run", "cannot be imported: there is no module no_such; name its folder in PYTHONPATH, or install it"),
        ("json:run", "cannot be imported (AttributeError: module 'json' has no attribute 'run')"),
        ("broken_agent:run", "cannot be imported (ZeroDivisionError: division by zero (broken_agent.py, line 2))"),
        (
            "needing_agent:run",
            "cannot be imported (ModuleNotFoundError: No module named 'no_such' (needing_agent.py, line 1))",
        ),
    ],
)
def test_a_function_that_cannot_be_imported_is_named_with_the_users_own_line(tmp_path, monkeypatch, name, sentence):
    (tmp_path / "broken_agent.py").write_text("\n1 / 0")
    (tmp_path / "needing_agent.py").write_text("import no_such")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert play_one(function=name).reason == f"the function {name} {sentence}"


@pytest.mark.parametrize("first", [True, False])
def test_a_failure_says_what_the_gateway_refused_before_it(first):
    def run(client, episode):
        if not first:
            client.ask([user("Hi")])
        client.post([user("Hi")], tools=[{"type": "function", "function": {"name": 3}}]).raise_for_status()

    def recovers(client, episode):
        client.post([user("Hi")], n=2)
        client.ask([user("Hi")])
        raise ValueError("of its own")

    reason = play_one(run).reason
    assert reason.endswith("; the gateway refused its last request: tools[0].function.name is a number; give a string")
    assert "\n" not in reason, "it is one sentence, whatever the client's error says"
    assert "refused" not in play_one(recovers).reason


def test_a_path_that_the_gateway_has_not_is_refused_in_a_sentence():
    answers = []

    def run(client, episode):
        answers.extend((client.http.post("embeddings", json={}), client.http.get("chat/completions")))

    trajectory = play_one(run)
    others = "but POST of /v1/chat/completions, /v1/messages and /v1/responses; ask another server for anything else"
    assert [(answer.status_code, answer.json()["error"]["message"]) for answer in answers] == [
        (404, f"the gateway has no POST /v1/embeddings, {others}"),
        (404, f"the gateway has no GET /v1/chat/completions, {others}"),
    ]
    assert trajectory.reason.endswith(
        f"; the gateway refused its last request: {answers[1].json()['error']['message']}"
    )


WORKING = """
import os
import time

import httpx2


def run(episode):
    headers = {"authorization": f"Bearer {episode.api_key}"}
    body = {"model": "policy", "messages": [{"role": "user", "content": episode.task["prompt"]}]}
    httpx2.post(f"{episode.base_url}/chat/completions", headers=headers, json=body, timeout=60).raise_for_status()
    if episode.task["prompt"] == "die":
        os._exit(3)
    if episode.task["prompt"] == "slow":
        time.sleep(2)
    if episode.task["prompt"] == "fail":
        raise KeyError("lost")
    episode.reward(0.25)
    return {"answer": str(os.getpid()), "reward": 0.5}
"""


def test_a_worker_plays_functions_and_is_replaced_when_it_dies(tmp_path, monkeypatch):
    (tmp_path / "working_agent.py").write_text(WORKING)
    monkeypatch.syspath_prepend(str(tmp_path))

    def episodes(*prompts):
        tasks = [Task(prompt, prompt=prompt) for prompt in prompts]
        result = play(None, ["Well."] * len(tasks), tasks, function="working_agent:run")
        return [*result.trajectories, *result.dropped]

    first, second, failed = episodes("a", "fail", "b")
    assert first.answer == second.answer != str(os.getpid())
    assert first.total_reward == pytest.approx(0.75)
    assert failed.reason == "the function failed with KeyError: 'lost' (working_agent.py, line 17)"
    crashed = episodes("die", "slow")
    assert all("the process of the function is gone: it ended with status 3" in one.reason for one in crashed)
    apart = {one.task.id: one for one in episodes("die", "slow")}
    assert "the function ended its process: it ended with status 3" in apart["die"].reason
    assert apart["slow"].status is EndStatus.TERMINATED
    (third,) = episodes("c")
    assert third.status is EndStatus.TERMINATED
    assert third.answer != first.answer


STARTS = """
import pathlib, subprocess, sys
def run(episode):
    pathlib.Path(__file__).with_suffix(".told").write_text(str(subprocess.Popen(["sleep", "600"], process_group=0).pid))
"""


def test_what_a_function_has_started_ends_with_its_worker(tmp_path):
    (tmp_path / "starting_agent.py").write_text(STARTS)
    asked = {"id": 0, "task": {"prompt": "?"}, "address": "http://127.0.0.1:1", "key": "key"}
    with subprocess.Popen(
        [sys.executable, "-c", _START, "starting_agent:run"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,
    ) as worker:
        worker.stdin.write(json.dumps(asked).encode() + b"\n")
        worker.stdin.flush()
        assert worker.stdout.readline()
        child = os.pidfd_open(int((tmp_path / "starting_agent.told").read_text()))
        worker.stdin.close()
        assert select.select([child], [], [], 60)[0]
        os.close(child)


SHARES_A_LOCK = """
import asyncio
LOCK = asyncio.Lock()
async def hold():
    async with LOCK:
        await asyncio.sleep(0.01)
async def run(episode):
    await asyncio.gather(hold(), hold())
    return 1.0
"""


def test_what_async_episodes_cannot_share_is_said(tmp_path, monkeypatch):
    (tmp_path / "sharing_agent.py").write_text(SHARES_A_LOCK)
    monkeypatch.syspath_prepend(str(tmp_path))
    result = play(None, [], [Task("a", "a"), Task("b", "b")], function="sharing_agent:run", workers=0)
    assert any("make async clients in the function" in str(failed.reason) for failed in result.dropped), result.dropped


ASK = """
import json, os, sys, urllib.request
def ask(text):
    body = json.dumps({"model": "policy", "messages": [{"role": "user", "content": text}]}).encode()
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
"""


def command(tmp_path: Path, code: str) -> list[str]:
    file = tmp_path / "agent.py"
    file.write_text(ASK + textwrap.dedent(code))
    return [sys.executable, "-S", str(file), "{task}", "ask: {prompt}"]


def test_a_command_gets_its_task_in_four_ways_and_prints_its_result(tmp_path):
    code = """
    tasks = [json.load(sys.stdin), json.load(open(os.environ["AGENT_R1_TASK"])), json.loads(sys.argv[1])]
    assert tasks[0] == tasks[1] == tasks[2], tasks
    assert sys.argv[2] == "ask: " + tasks[0]["prompt"]
    assert "answers" not in tasks[0], "they would reveal the answer"
    assert os.listdir() == ["task.json"]
    print("asking", flush=True)
    print(json.dumps({"reward": 1, "answer": ask(tasks[0]["prompt"])}))
    """
    trajectory = play_one(command=command(tmp_path, code))
    assert (trajectory.answer, trajectory.total_reward, trajectory.reason) == ("Tavelo", 1.0, "answer")
    assert trajectory.turns[0].info["output"].startswith("asking\n")


def test_a_program_that_says_no_result_is_noted_unless_it_rewards_turns_or_says_a_number(tmp_path, caplog):
    def rewards(client, episode):
        client.ask([user("Hi")])
        episode.reward(0.0)

    _noted.clear()
    play_one(rewards)
    play_one(command=command(tmp_path, "ask('Hi'); print(json.dumps({'reward': 0}))"))
    assert not caplog.text
    for said in ("", "I think that it is Tavelo"):
        _noted.clear()
        trajectory = play_one(command=command(tmp_path, f"ask('Hi'); print({said!r})"))
        assert (trajectory.status, trajectory.answer) == (EndStatus.TERMINATED, None)
        assert "ended without a reward or an answer" in caplog.text
        assert said in caplog.text
        caplog.clear()


@pytest.mark.parametrize(
    ("said", "reward", "metrics"),
    [
        ({"reward": 0.5, "calls": 3}, 0.5, {"calls": 3.0}),
        ({"reward": True, "answer": 7, "success": 1}, 1.0, {}),
        ({"answer": "x", "calls": 3, "seconds": 12.5}, 0.0, {"calls": 3.0, "seconds": 12.5}),
        ({"answer": None, "calls": 3}, 0.0, {"calls": 3.0}),
        ({"rewrd": 0.5, "bonus": 1}, 1.5, {"rewrd": 0.5, "bonus": 1.0}),
    ],
)
def test_numbers_beside_a_reward_or_an_answer_are_metrics_and_count_where_there_is_neither(
    caplog, said, reward, metrics
):
    def run(client, episode):
        client.ask([user("Hi")])
        return said

    _noted.clear()
    for _ in range(2):
        trajectory = play_one(run)
        info = trajectory.turns[0].info
        assert (trajectory.total_reward, {name: info[name] for name in metrics}) == (reward, metrics)
        assert set(info) == {"request", *metrics}
    note = "the program's result has no reward, so the sum of rewrd, bonus counts; give a reward or an answer"
    assert caplog.messages == ([note] if "rewrd" in said else [])


@pytest.mark.parametrize("told", ["function", "last line", "file"])
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('{"reward": NaN, "calls": 4}', "has the reward nan; give a finite number, or leave it out"),
        ('{"reward": "0.3", "calls": 4, "answer": "x"}', "has the reward '0.3'; give a finite number, or leave it out"),
        ('{"reward": 1e400}', "has the reward inf; give a finite number, or leave it out"),
        ('{"reward": null, "calls": 4}', "has the reward None; give a finite number, or leave it out"),
        ('{"answer": ["42"]}', "has the answer ['42']; give a text or a number"),
        ('{"reward": 1, "seconds": NaN}', "has the seconds nan; give a finite number, or leave it out"),
        ("NaN", "is nan; give a number, a text or an object"),
    ],
)
def test_a_result_with_a_number_that_cannot_count_fails_its_episode(tmp_path, told, said, shown):
    def run(client, episode):
        client.ask([user("Hi")])
        return json.loads(said)

    if told == "function":
        trajectory = play_one(run)
    else:
        where = "sys.stdout" if told == "last line" else "open(os.environ['AGENT_R1_RESULT'], 'w')"
        code = f"ask('Hi'); {where}.write({said!r}); sys.stdout.flush(); print('Bye.', file=sys.stderr)"
        trajectory = play_one(command=command(tmp_path, code))
    assert (trajectory.status, trajectory.reason) == (EndStatus.FAILED, f"the program's result {shown}")


def test_the_last_line_of_a_command_is_read_whole_or_fails_its_episode(tmp_path):
    said = "ask('Hi'); print('50 %%', end='\\r'); print(json.dumps({'answer': 'a\u2028b' * %d}, ensure_ascii=False))"
    assert play_one(command=command(tmp_path, said % 20_000)).answer == "a\u2028b" * 20_000
    long = play_one(command=command(tmp_path, said % 2**20))
    assert long.status == EndStatus.FAILED
    assert long.reason.endswith(
        "has more than 1048576 characters; write the result to the file that AGENT_R1_RESULT names"
    )


def test_what_names_no_module_or_a_script_that_its_folder_will_not_hold_is_refused_before_anything_runs():
    for wrong, sentence in (
        ({"function": "mf"}, "env.function is 'mf'; give module:function"),
        (
            {"command": ["python", "agent.py"]},
            "env.command names agent.py, but the program runs in an empty folder; give its absolute path",
        ),
    ):
        assert ProgramEnv.unavailable(ProgramConfig(**wrong)) == sentence
    assert ProgramEnv.unavailable(ProgramConfig(function="a.b:c")) is None
    for good in (["python", "/agent.py"], ["python", "-m", "agent"], ["sh", "-c", "cd /x; ./a.sh"], ["agent.py"]):
        assert ProgramEnv.unavailable(ProgramConfig(command=good)) is None


SLEEP = ["sleep", f"77.{os.getpid()}"]
"""No other test's."""


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("ask('Hi'); print('it broke'); sys.exit(3)", EndStatus.FAILED, "exit code 3: it broke"),
        (
            "ask('Hi'); print('buffered'); import runpy\ndef play(): json.loads('{')\nplay()",
            EndStatus.FAILED,
            "exit code 1: json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1) (agent.py, line 9)",
        ),
        ("ask('Hi'); os.kill(os.getpid(), 9)", EndStatus.FAILED, "signal 9"),
        (
            "ask('Hi'); import time; time.sleep(600)",
            EndStatus.FAILED,
            "{prompt}'` neither asked the model again nor ended within 1 seconds in episode 0/q/0/1; raise env.timeout",
        ),
        ("import signal; signal.signal(15, signal.SIG_IGN)\nwhile True: ask('Hi')", EndStatus.TRUNCATED, "max_turns"),
        ("ask('Hi')\nfor _ in range(20000): print('x' * 99)", EndStatus.TERMINATED, "env"),
        (f"import subprocess; subprocess.Popen({SLEEP})\nask('Hi'); print(1)", EndStatus.TERMINATED, "env"),
        ("import subprocess; subprocess.Popen(['sleep', '78'], start_new_session=True)\nask('Hi')", None, ""),
    ],
    ids=["exit", "raises", "killed", "hang", "for ever", "prints", "fork", "daemon"],
)
def test_a_command_that_misbehaves_ends_with_its_reason(tmp_path, code, status, reason):
    trajectory = play_one(command=command(tmp_path, code), timeout=1 if "600" in code else 60, max_turns=3)
    assert status is None or trajectory.status is status, trajectory.reason
    assert reason in trajectory.reason
    if str(SLEEP) in code:
        ends = time.monotonic() + 60
        while any(process.info["cmdline"] == SLEEP for process in psutil.process_iter(["cmdline"])):
            assert time.monotonic() < ends, "what the program started goes on"


def test_a_function_that_asks_for_nothing_is_named_with_its_bound():
    shared_gateway()  # which takes time of its own to start
    ends = threading.Event()
    trajectory = play_one(lambda client, episode: ends.wait(60), timeout=0.5)
    ends.set()
    assert (trajectory.status, trajectory.reason) == (
        EndStatus.FAILED,
        "the function a:function asked the model for nothing within 0.5 seconds in episode 0/q/0/1; raise env.timeout "
        "if it needs longer",
    )


def spoken(action, form=None, thinking="separate", takes=(), **fields):
    """The reply to a request with a tool that takes so many texts; an action has its own text, or tokens."""
    function = {"name": "look", "parameters": {"properties": {name: {"type": "string"} for name in takes}}}
    tools = ({"type": "function", "function": function},) if takes else ()
    request = ChatRequest("policy", (ChatMessage("user", "Hi"),), tools, **fields)
    return reply_of(action, request, form, "".join, thinking)


def test_a_format_learns_the_tools_of_each_request():
    form = SearchTags()
    reply = spoken(Action("<search>Karimo</search>"), form, takes=["who"])
    assert [(call.name, call.arguments) for call in reply.calls] == [("look", {"who": "Karimo"})]
    assert form.parse("<search>it</search>").calls[0].name == "search", "requests share the format itself"


@pytest.mark.parametrize(
    ("stop", "read"),
    [
        (("\n",), ("Thought", "Hello.", "\n")),
        (("ser", "Ob"), ("Thought", "Hello.\n\n", "Ob")),
        (("ough",), ("Th", "", "ough")),
    ],
)
def test_a_program_reads_nothing_from_its_stop_string_on(stop, read):
    reply = spoken(Action("<think>Thought</think>Hello.\n\nObserve"), stop=stop)
    assert (reply.thinking, reply.text, reply.stopped_by) == read
    reply = spoken(Action("Thought</think>Hello.\n\nObserve", opened="<think>\n"), stop=stop)
    assert (reply.thinking, reply.text, reply.stopped_by) == read, "the template opened the thought"


OSS = "<|channel|>analysis<|message|>I  look.<|end|>"
NOTES = '<tool_call>{"name": "look", "arguments": {"text": "%s"}}</tool_call>'


@pytest.mark.parametrize(
    ("said", "thought", "text", "noted"),
    [
        ("I see. <think>a</think>B <think>c", "a\n\nc", "I see. B ", []),
        (f"I see. <think>a</think>{NOTES % 'x'}<think>b</think>", "a\n\nb", "I see.", ["x"]),
        (f"<think>a</think>B{NOTES % '<think>y</think>x'}", "a", "B", ["<think>y</think>x"]),
        (NOTES % "y</think>x", "", "", ["y</think>x"]),
        (OSS + "<|start|>assistant<|channel|>final<|message|>Paris", "I  look.", "Paris", []),
        (OSS + f"<|start|>assistant<|channel|>commentary<|message|>B{NOTES % 'x'}", "I  look.", "B", ["x"]),
        ("<|channel|>final<|message|>Paris<|return|>", "", "Paris", []),
        ("<|channel|>fin", "", "<|channel|>fin", []),
    ],
)
def test_every_thought_reaches_the_program_once_and_arguments_to_the_letter(said, thought, text, noted):
    apart, kept = (spoken(Action(said), Hermes(), thinking, ["text"]) for thinking in ("separate", "text"))
    assert (apart.thinking, apart.text) == (thought, text)
    blocks = "".join(f"<think>{one}</think>" for one in thought.split("\n\n") if one)
    plain = said.startswith("I see.") and not noted
    assert (kept.thinking, kept.text) == ("", said if plain else f"{blocks}{text}")
    assert all([call.as_object["text"] for call in reply.calls] == noted for reply in (apart, kept))


def test_what_was_not_sampled_has_no_logprobs():
    """A demonstration, which has NaN: no JSON has it."""
    request, ids = ChatRequest("policy", (ChatMessage("user", "Hi"),), logprobs=True), ("a", "b")
    replies = [reply_of(Action("ab", ids, logprobs=(one, one)), request, None, "".join, "text") for one in (-0.5, nan)]
    assert [
        json.loads(json.dumps(chat.write(one, request), allow_nan=False))["choices"][0]["logprobs"] is None
        for one in replies
    ] == [False, True]


ANALYSIS = ("<|channel|>", "analysis", "<|message|>", "I  look.", "<|end|>")


@pytest.mark.parametrize(
    ("thought", "said"),
    [
        (("<think>", "I", " ", "look", ".", "</think>"), ("Yes", ".")),
        (("<think>", "I"), ()),
        ((), ("Yes.", "")),
        (ANALYSIS, ("<|start|>assistant", "<|channel|>final", "<|message|>Paris")),
    ],
)
def test_tokens_of_the_reasoning_are_counted(thought, said):
    ids = thought + said
    reply = spoken(Action("".join(ids), ids))
    assert (reply.completion_tokens, reply.thinking_tokens) == (len(ids), len(thought))
