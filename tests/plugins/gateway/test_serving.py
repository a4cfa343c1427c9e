"""`agent-r1 serve` answers programs with a model, each request by itself."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import httpx2
import pytest
from agent_r1_gateway.line import Line
from agent_r1_gateway.serve_command import serve
from agent_r1_gateway.server import Gateway
from agent_r1_gateway.serving import Served
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import EngineError, Sampling
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import ContextFull
from agent_r1_core.testing import CommandContract, ScriptedPolicy, tiny_tokenizer

from .conftest import Client, user


class TestServe(CommandContract):
    component = serve


def served(policy: ScriptedPolicy, work: Callable[[Client], Any]) -> Any:
    """What `work` gives with a client of a served policy."""

    async def run() -> Any:
        tokenizer = ChatTokenizer(tiny_tokenizer())
        answers = Served(policy, tokenizer, Hermes(), Sampling(max_new_tokens=40), positions=2048)
        gateway, line = Gateway(), Line(answers.take, on_left=answers.leave)
        gateway.open(line)
        gateway.start()
        try:
            return await asyncio.to_thread(work, Client(f"{gateway.address}/v1", line.key))
        finally:
            gateway.close(line, "over")

    return asyncio.run(run())


def test_requests_are_answered_at_once_and_each_by_itself() -> None:
    policy = ScriptedPolicy(lambda cue: f"heard {cue.prompt.count('<|im_start|>user')}")
    history = [user("one"), {"role": "assistant", "content": "What I never said."}, user("two")]

    def work(client: Client) -> tuple[str, int]:
        rewarded = client.http.post("../reward", json={"reward": 1}).status_code
        return client.ask(history)["content"], rewarded

    assert served(policy, work) == ("heard 2", 403), "rewards have no meaning here"
    assert len(policy.released) == 1


def test_a_client_that_leaves_cancels_its_generation_and_its_retry_is_a_new_request() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    class Slow(ScriptedPolicy):
        async def generate(self, request: Any) -> Any:
            if cancelled.is_set():
                return await super().generate(request)
            begun.set()
            try:
                return await asyncio.sleep(3600)
            finally:
                cancelled.set()

    def leaves(client: Client) -> Any:
        asked, patience = {"model": "policy", "messages": [user("Hi")]}, 0.2
        while not begun.is_set():  # a busy machine may take longer to begin
            with pytest.raises(httpx2.ReadTimeout):
                client.http.post("chat/completions", json=asked, timeout=patience)
            patience *= 2
        assert cancelled.wait(60)
        return client.post([user("Hi")], {"x-stainless-retry-count": "1"}).json()["choices"][0]["message"]["content"]

    assert served(Slow(["Ho"]), leaves) == "Ho"


def test_what_the_engine_refuses_is_the_requests_fault() -> None:
    class Refusing(ScriptedPolicy):
        async def generate(self, request: Any) -> Any:
            raise errors.pop()

    errors = [
        EngineError("a request has no ids"),
        ContextFull("a context of 9 ids leaves no room; lower env.max_turns"),
    ]
    for message, code in (
        ("prompt is too long: a context of 9 ids leaves no room; send less", "context_length_exceeded"),
        ("a request has no ids", None),
    ):
        answer = served(Refusing([""]), lambda client: client.post([user("Hi")]))
        error = answer.json()["error"]
        assert (answer.status_code, error["message"], error["code"]) == (400, message, code)


def test_a_giant_text_is_refused_before_it_is_encoded() -> None:
    policy, giant = ScriptedPolicy([""]), user("b " * 2**20)
    answer = served(policy, lambda client: client.post([giant]))
    assert answer.json()["error"]["message"].endswith(" ids or more, and the model has 2048 positions; send less")
    assert policy.requests == []


ENDING = """
import atexit, threading, time
from agent_r1_gateway.server import Gateway

atexit.register(lambda: print(*[thread.name for thread in threading.enumerate()]))  # registered first, it runs last
gateway = Gateway()
gateway.start()
while not gateway._server.started:
    time.sleep(0.01)
"""


def test_the_server_ends_before_python_does() -> None:
    """A timer of uvloop crashes a process whose Python has ended."""
    ended = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=300)
    assert (ended.stdout, ended.returncode) == ("MainThread\n", 0)


@pytest.mark.slow
def test_the_command_serves_until_it_is_told_to_end() -> None:
    command = [sys.executable, "-m", "agent_r1_cli", "serve", "--port", "0"]
    command += ["engine.temperature=50", "engine.max_new_tokens=1500"]  # random tokens, until one ends the turn
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().removeprefix("export ").strip() for _ in range(4)]
            told = dict(line.split("=", 1) for line in lines)
            client = Client(told["OPENAI_BASE_URL"], told["OPENAI_API_KEY"])
            assert client.ask([user("What is the birthplace of Karimo?")])["role"] == "assistant"
            headers = {"x-api-key": told["ANTHROPIC_API_KEY"]}
            body = {"model": "policy", "max_tokens": 8, "messages": [user("Hi")]}
            answer = httpx2.post(f"{told['ANTHROPIC_BASE_URL']}/v1/messages", json=body, headers=headers, timeout=60)
            assert answer.json()["stop_reason"] in ("end_turn", "max_tokens")
            with ThreadPoolExecutor(8) as threads:
                asked = [threads.submit(client.post, [user("Hi")]) for _ in range(8)]
                wait(asked, return_when=FIRST_COMPLETED)
                process.send_signal(signal.SIGTERM)
                answers = [one.result() for one in asked]
            refused = {one.json()["error"]["message"]: one.status_code for one in answers if one.status_code != 200}
            assert refused in ({"the server is ending; ask again when it runs": 503}, {}), "all may have been in time"
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
