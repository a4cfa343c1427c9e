"""The tools of MCP servers; the servers are real ones, most over the package mcp."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
from agent_r1_mcp.server import Server
from agent_r1_mcp.toolset import McpToolset
from served import free_port, serving

from agent_r1_core.errors import AgentR1Error
from agent_r1_core.testing import ToolContract
from agent_r1_core.training.api import resolve

from .. import conftest

HERE = Path(__file__).parent
PLAIN = (sys.executable, "-I", "-S", str(HERE / "plain_server.py"))
DEMO = (sys.executable, str(HERE / "demo_server.py"))
PATH = ("PYTHONPATH",) if os.environ.get("PYTHONPATH") else ()


class TestMcp(ToolContract):
    component = McpToolset
    config: ClassVar = {"command": PLAIN, "prefix": "plain-"}
    member = "plain-say"
    arguments: ClassVar = {"word": "hello"}
    expected = "hello 0"


opened = partial(conftest.opened, McpToolset)


@pytest.mark.slow
async def test_whatever_a_server_answers_or_does_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_KEY", "a-very-secret-key")
    async with opened(command=DEMO, env=("DEMO_KEY", *PATH)) as call:
        said = {"geo_move_to": "moved", "secret": "the key is ${DEMO_KEY}", "facts": '{"legs": 4}'}
        said["look"] = "a cat\n[image, image/png, 300 bytes]"
        assert {name: (await call(name)).text for name in said} == said
        assert (await call("add", a=1)).text == "2"
        failed = [await call("add", a="one"), await call("fail"), await call("add", c=1)]
        assert all(result.error for result in failed)
        assert "valid integer" in failed[0].text
        assert "c: is no argument" in failed[2].text
        if "ask" in call.runner.tools:
            asked = await call("ask")
            why = "the tool asks for input that nobody can give (Which one?); call it with all that it needs"
            assert (asked.error, asked.text) == (True, f"Error: {why}")
        assert [(await call("count")).text for _ in range(2)] == ["1", "2"]
        dead = await call("die")
        assert (dead.error, dead.metrics) == (True, {"away": 1.0})
        assert "ended before it answered" in dead.text
        assert (await call("count")).text == "1", "another process"
        numbers = await asyncio.gather(*(call("add", a=number) for number in range(1_000)))
        assert [int(result.text) for result in numbers] == list(range(1, 1_001))


@pytest.mark.slow
async def test_a_slow_call_costs_its_time_and_a_server_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(timeout=2.0, command=DEMO, env=PATH) as call:

        async def process() -> str:
            while not (said := (await call("process")).text).isdigit():  # a busy machine may take longer than the call
                continue
            return said

        monkeypatch.setattr("agent_r1_mcp.server._PROBE_SECONDS", 60.0)
        first = await process()
        slow = await call("sleep", seconds=60)
        assert slow.text == "Error: sleep did not answer within 2 seconds."
        assert await process() == first, "a server that still lists its tools stays"
        monkeypatch.setattr("agent_r1_mcp.server._PROBE_SECONDS", 1.0)
        assert "did not answer" in (await call("hang")).text
        while await process() == first:
            continue


async def test_a_server_that_answers_another_call_is_kept_although_its_list_comes_late(monkeypatch):
    class Late:
        started, ended, answered, left = True, False, 0, False

        async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(60 if name == "sleep" else 0)
            self.answered += 1
            return {}

        async def tools(self) -> list[dict[str, Any]]:
            await asyncio.sleep(60)
            return []

        async def leave(self) -> None:
            self.left = True

    monkeypatch.setattr("agent_r1_mcp.server._PROBE_SECONDS", 0.2)
    first, *others = connections = [Late(), Late()]
    server = Server("late", lambda: connections.pop(0))  # type: ignore[arg-type, return-value]

    async def out_of_time() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(server.call("sleep", {}), 0.05)

    async def probed() -> None:
        while server._background:
            await asyncio.wait(server._background)

    await out_of_time()
    await server.call("count", {})
    await probed()
    assert not first.left
    await out_of_time()
    await probed()
    assert first.left, "nothing was answered since that call began"
    await server.close()
    assert others[0].left


async def test_each_episode_has_a_process_of_its_own_and_leaves_nothing() -> None:
    this = psutil.Process()
    async with opened(command=PLAIN, per_episode=True) as call:
        before, files = {*this.children()}, this.num_fds()
        for _ in range(int(os.environ.get("AGENT_R1_MCP_ROUNDS", "1"))):
            names = [f"episode {index}" for index in range(16)]
            for count in (1, 2):
                said = await asyncio.gather(*(call("count", name, word=name) for name in names))
                assert [result.text for result in said] == [f"{name} {count}" for name in names]
            assert len({*this.children()} - before) == 16
            await asyncio.gather(*(call.runner.release("count", conftest.tool_context(name)) for name in names))
            assert {*this.children()} <= before
            assert this.num_fds() < files + 16, "not even one for each episode"
        await call("say", word="last")
    assert {*this.children()} <= before


async def test_a_server_that_refuses_lives_on_and_what_it_has_started_ends_with_it() -> None:
    async with opened(command=(*PLAIN, "count", "refuse", "child")) as call:
        assert (await call("count")).text == " 1"
        assert (await call("refuse")).text == "Error: the server refused the call: no luck"
        assert (await call("count")).text == " 3"
        child = os.pidfd_open(int((await call("child")).text))
    assert select.select([child], [], [], 60)[0], "it lives on"
    os.close(child)


@pytest.mark.slow
async def test_a_server_at_an_address_may_go_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_KEY", "a-very-secret-key")
    port = free_port()
    command = {"command": [*DEMO, port], "port": port, "env": {**os.environ, "DEMO_KEY": "a-very-secret-key"}}
    at = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Key": "${DEMO_KEY}"}}
    with serving(**command) as process:
        started = opened(**at)
        call = await started.__aenter__()
        numbers = await asyncio.gather(*(call("add", a=number) for number in range(64)))
        assert [int(result.text) for result in numbers] == list(range(1, 65))
        assert (await call("secret")).text == "the key is ${DEMO_KEY}"
        waiting = asyncio.ensure_future(call("sleep", seconds=60))
        await asyncio.sleep(0)
        process.send_signal(signal.SIGKILL)
        assert (await waiting).error
        assert (await call("add", a=1)).error
    with serving(**command):
        while (back := await call("add", a=1)).error:
            await asyncio.sleep(0.05)
        assert back.text == "2"
        await started.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"only": ["saay"]}, "offers no 'saay'; it offers: say, count"),
        ({"command": [sys.executable, "-c", "raise SystemExit('no key')"]}, "cannot be used: .*(no key)"),
        ({"command": ["no-such-program"]}, "no-such-program cannot be used"),
        pytest.param(
            {"command": ["sleep", "86399"], "start_timeout": 0.3},
            "sleep 86399 cannot be used: it did not start within 0.3 seconds \\(start_timeout\\); correct that",
            marks=pytest.mark.slow,  # the package gives it two seconds to end
        ),
        ({"env": ["NOT_SET_ANYWHERE"]}, "environment variable NOT_SET_ANYWHERE"),
    ],
)
async def test_a_server_that_cannot_be_used_is_a_sentence(options: dict[str, Any], text: str) -> None:
    with pytest.raises(AgentR1Error, match=text):
        async with opened(**{"command": PLAIN, **options}):
            pass


OPENS = """
import sys
from agent_r1_mcp.toolset import McpToolset
from agent_r1_core.contracts.tool import ToolResources
toolset = McpToolset(McpToolset.Config(command=["sh", "-c", sys.argv[1], *sys.argv[2:]]))
toolset.open(ToolResources(".", {}))
sys.stdin.read()
"""
STARTS = 'sleep 600 >&2 & echo $! > "$0"; exec "$@"'


@pytest.mark.slow
def test_what_a_server_has_started_ends_with_a_process_that_did_not_close_it(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with subprocess.Popen([sys.executable, "-c", OPENS, STARTS, told, *PLAIN], stdin=subprocess.PIPE) as opener:
        while not (told.exists() and told.read_text()):
            assert opener.poll() is None
            time.sleep(0.05)
        child = os.pidfd_open(int(told.read_text()))
        opener.communicate()
        assert select.select([child], [], [], 60)[0]
        os.close(child)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("{name: mcp}", "either a command"),
        ("{name: mcp, url: 'http://x/mcp', per_episode: true}", "keeps nothing apart"),
        ("{name: mcp, url: 'http://x/mcp', headers: {Authorization: 'Bearer abc'}}", "shows its secret"),
        ("{name: mcp, url: 'http://x/mcp', isolation: process}", "is not for mcp, whose tools"),
        ("{name: mcp, command: [x]}", "names a program that did not run here before, command x"),
    ],
)
def test_a_recipe_that_cannot_mean_what_it_says_is_refused(tmp_path: Path, options: str, text: str) -> None:
    (tmp_path / "recipe.yaml").write_text(f"extends: calculator\ntools: [{options}]\n")
    with pytest.raises(AgentR1Error, match=text):
        resolve(str(tmp_path / "recipe.yaml"), (), training=False).check_available()


@pytest.mark.installed
def test_the_package_of_the_1_line_does_as_well(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([*pip, "mcp==1.30.0", "httpx-sse", "pydantic-settings", "python-dotenv"], check=True, timeout=300)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    pytest_words = (sys.executable, "-m", "pytest", "-q", "-p", "no:xdist")
    tests = [*pytest_words, __file__, "-k", "whatever or address or own or asked_for"]
    environment = {**os.environ, "PYTHONPATH": path, "AGENT_R1_MCP_LINE": "1"}
    done = subprocess.run(tests, cwd=HERE, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def test_the_line_is_the_one_that_was_asked_for() -> None:
    assert metadata.version("mcp").startswith(os.environ.get("AGENT_R1_MCP_LINE", "2"))
