"""What soak.py plays: for each environment, tool and judge a recipe, what the policy says, and its server."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import report

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = ROOT / "tests" / "plugins"
sys.path += [str(PLUGINS / name) for name in ("judges", "openapi_tools", "openenv")] + [str(ROOT / "tests" / "warm")]
"""The tests have the servers."""
SECONDS = 3
"""Time-out of what hangs."""


@dataclass(frozen=True)
class World:
    recipe: str
    overrides: list[str]
    answers: Sequence[str]
    """The policy's actions, turn by turn."""
    hangs: Sequence[str] = ()
    """Those of an episode that hangs; empty: nothing here can."""
    timeout: float | None = None
    """In seconds, of what hangs."""
    samples: int = 1
    """Episodes of a task."""
    beside: Callable[[], AbstractContextManager[str]] = lambda: nullcontext("")
    """What it needs; the text replaces ADDRESS."""
    cheap: bool = True
    """Whether the quick form has it."""

    def given(self, address: str, episodes: int, at_once: int) -> dict[str, Any]:
        """What `soak.play` needs, as JSON."""
        script = {"answers": self.answers, "rare": self.hangs}
        given = {"recipe": self.recipe, "overrides": self.overrides, "samples": self.samples, "script": script}
        text = json.dumps({**given, "episodes": episodes, "at_once": at_once})
        return dict(json.loads(text.replace("ADDRESS", address)))


def call(tool: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': tool, 'arguments': arguments})}</tool_call>"


def tool(*answers: str, hangs: str = "", recipe: str = "calculator", **block: Any) -> World:
    """Calls of one tool, then an answer."""
    done = ["<answer>4</answer>"]
    overrides = [f"tools={json.dumps([block])}", "env.max_tokens=2000", "rewards=[exact_match]"]
    timeout = block.get("seconds", block["timeout"])
    return World(recipe, overrides, [*answers, *done], [hangs, *done] if hangs else [], timeout)


def world(name: str, answer: str, **options: Any) -> World:
    return World("frozen_lake", [f"env={json.dumps({'name': name, **options})}"], [answer])


@contextmanager
def api() -> Iterator[str]:
    from api import app
    from served import served

    with served(app()) as address:
        yield address


@contextmanager
def mcp_server() -> Iterator[str]:
    from served import free_port, serving

    port = free_port()
    with serving([*DEMO, port], port):
        yield f"http://127.0.0.1:{port}/mcp"


@contextmanager
def openenv_server() -> Iterator[str]:
    from little_server import LittleServer

    server = LittleServer()
    yield server.url
    server.close()


@contextmanager
def judge_server() -> Iterator[str]:
    """A judge that never replies to an answer of `slow`."""
    from scripted_judge import ScriptedJudge

    ended = threading.Event()

    def says(request: dict[str, Any]) -> str:
        text = request["messages"][-1]["content"]
        if "slow" in text:
            ended.wait(600)
        script.requests.clear()
        script.keys.clear()
        if "ranking" not in request["messages"][0]["content"]:
            return '{"correct": 10}'
        data = json.loads(text.partition("<data>\n")[2].rpartition("\n</data>")[0])
        return json.dumps({"ranking": sorted(map(int, data["answers"]))})

    with (script := ScriptedJudge(says)).served():
        yield script.address
        ended.set()


@contextmanager
def python_of(tests: str, *options: str) -> Iterator[str]:
    """A Python of its own, with what the tests of a plugin ask for."""
    from made_environments import python_with

    folder = Path(os.environ.get("AGENT_R1_TEST_CLIENTS", report.HOME / "results" / "clients"))
    folder.mkdir(parents=True, exist_ok=True)
    wanted = PLUGINS / tests / "requirements.txt"
    yield str(python_with(wanted, folder / tests.partition("_")[0], "--no-deps", *options))


DEMO = [sys.executable, str(PLUGINS / "mcp_tools" / "demo_server.py")]
PLAIN = [sys.executable, "-I", "-S", str(PLUGINS / "mcp_tools" / "plain_server.py"), "count", "hang"]
ADD, SLEEP = call("add", a=1), call("sleep", seconds=600)
CODE, LOOP = [call("python", code="x = 6"), call("python", code="x + 7")], call("python", code="while True: pass")
JUDGE = {"address": "ADDRESS", "request_timeout": SECONDS, "retries": 0, "timeout": 120}
VERIFIERS = {"name": "verifiers", "python": "ADDRESS", "path": str(PLUGINS / "verifiers_tasks")}
VERIFIERS_PYTHON = partial(python_of, "verifiers_tasks")
SLOW = {"taskset": "slow-sums", "size": 100}
INTEGRALS = {"name": "reasoning_gym", "dataset": "simple_integration", "evaluate_answers": True, "size": 50}
SHELL = call("shell", command="echo 4 > file; cat file")
SHORT = {"max_turns": 5, "max_tokens": 2000}


def judged(*rewards: dict[str, Any], hangs: bool = True, samples: int = 1) -> World:
    """Answers of which a judge hears."""
    overrides = ["tools=[]", f"rewards={json.dumps(rewards)}"]
    slow = ["<answer>slow DIGIT</answer>"] if hangs else []
    beside = judge_server if hangs else World.beside
    return World("calculator", overrides, ["<answer>DIGIT</answer>"], slow, SECONDS, samples, beside)


def scored(tasks: dict[str, Any], reward: dict[str, Any], hangs: str, beside: Any = World.beside) -> World:
    overrides = ["tools=[]", f"tasks.train={json.dumps(tasks)}", f"rewards={json.dumps([reward])}"]
    answers = ["<answer>DIGIT</answer>"], [f"<answer>{hangs}</answer>"]
    return World("calculator", overrides, *answers, SECONDS, beside=beside, cheap=False)


WORLDS: dict[str, World] = {
    "frozen_lake": World("frozen_lake", [], ["<answer>down</answer>", "<answer>right</answer>"]),
    "gymnasium/CliffWalking": world(
        "gymnasium", "<answer>up</answer>", id="CliffWalking-v1", actions={"up": 0, "right": 1}, **SHORT
    ),
    "sokoban": world("sokoban", "<answer>left</answer>", **SHORT),
    "bandit": world("bandit", "<answer>dragon</answer>"),
    "countdown": world("countdown", "<answer>1 + 2</answer>"),
    "textarena/TicTacToe": World(
        "textarena", ["env={name: textarena, id: TicTacToe-v0, opponent: self, max_tokens: 2000}"], ["[DIGIT]"]
    ),
    "textworld": World(
        "textworld",
        ["env.python=ADDRESS", "tasks.train={name: seeds, size: 4}"],
        ["<answer>look</answer>", "<answer>take coin</answer>"],
        beside=partial(python_of, "textworld_env", "--no-binary", "jericho"),
        cheap=False,
    ),
    "calculator": tool(call("calculator", expression="6+7"), name="calculator", timeout=5),
    "wiki_search": tool(call("wiki_search", query="the birthplace"), recipe="default", name="wiki_search", timeout=10),
    "mcp": tool(ADD, hangs=SLEEP, name="mcp", command=DEMO, timeout=SECONDS),
    "mcp/per_episode": tool(
        call("count"), hangs=call("hang"), name="mcp", command=PLAIN, per_episode=True, timeout=SECONDS
    ),
    "mcp/url": replace(tool(ADD, hangs=SLEEP, name="mcp", url="ADDRESS", timeout=SECONDS), beside=mcp_server),
    "openapi": replace(
        tool(call("get_note", id=3), hangs=call("slow"), name="openapi", url="ADDRESS/openapi.json", timeout=SECONDS),
        beside=api,
    ),
    "openenv": World(
        "openenv",
        ["env.url=ADDRESS", f"env.timeout={SECONDS}", "env.text=null", "env.max_turns=5", "env.max_tokens=1000"],
        [call("act", number=number) for number in (3, 7, 5)],
        [call("act", number=0)],
        SECONDS,
        beside=openenv_server,
    ),
    "python/bubblewrap": tool(*CODE, hangs=LOOP, name="python", sandbox="bubblewrap", seconds=SECONDS, timeout=60),
    "python/sandlock": tool(*CODE, hangs=LOOP, name="python", sandbox="sandlock", seconds=SECONDS, timeout=60),
    "shell": tool(SHELL, hangs=call("shell", command="sleep 600"), name="shell", seconds=SECONDS, timeout=60),
    "harbor": World(
        "harbor",
        [f"env.seconds={SECONDS}"],
        [call("shell", command="echo hello > hello.txt"), "Done."],
        [call("shell", command="sleep 600"), "Done."],
        SECONDS,
    ),
    "judge": judged({"name": "judge", **JUDGE}),
    "judge/frozen": judged({"name": "judge", "frozen": "start", "timeout": 120}, hangs=False),
    "judge_comparison": judged({"name": "judge_comparison", **JUDGE}, samples=4),
    "reasoning_gym": scored(INTEGRALS, {"name": "reasoning_gym", "seconds": SECONDS}, "9**9**9**9*x"),
    "verifiers": scored({**VERIFIERS, **SLOW}, {**VERIFIERS, "seconds": SECONDS}, "wait", VERIFIERS_PYTHON),
    "verifiers/busy": scored({**VERIFIERS, **SLOW}, {**VERIFIERS, "seconds": SECONDS}, "loop", VERIFIERS_PYTHON),
}
