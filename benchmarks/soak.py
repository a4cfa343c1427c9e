"""How many episodes a second plays each environment, tool and judge, 64 at once, and what is left behind after 1,024?

    python benchmarks/soak.py
    python benchmarks/soak.py --only shell python/sandlock

Each is played in a process of its own, by its recipe and an engine that follows a script; what it needs beside it, as a
server, runs outside that process. Where something can hang, it does in one episode of 64. The table has

- `failed`: episodes that failed, beyond those that hung; `hung`: those, the slowest of them, and the time-out that
  should have ended it (its episode starts a sandbox or waits for a place, too);
- `processes` and `descriptors`: how many more there are after the last episode than after the first quarter of them,
  in the process and all that it has started; `left`: what still runs when the process has ended;
- memory that is no file's, of the process and all that it has started: after a quarter of the episodes, after all, and
  what an episode of the last three quarters has added.

verifiers and textworld get a Python of their own, in the folder that AGENT_R1_TEST_CLIENTS names, else in
benchmarks/results, which takes a minute each; the games of textworld are made in the first quarter, once.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import report

report.keep_calm()

if TYPE_CHECKING:
    from agent_r1_core.assembly.assembly import Assembly
    from agent_r1_core.rollout.result import RolloutResult
    from agent_r1_core.trajectory import Group, Trajectory

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


QUARTERS = 4
ADOPT = 36
"""PR_SET_CHILD_SUBREAPER: what outlives its parent becomes a child of this process."""
COLUMNS: tuple[str, ...] = ("what", "episodes/s", "slowest s", "failed", "hung", "slowest hung s", "time-out s")
COLUMNS += ("processes", "descriptors", "left", "MB, a quarter", "MB, all", "KB/episode")


def arguments() -> argparse.Namespace:
    options = report.parser(__doc__, "soak")
    options.add_argument("--only", nargs="+", choices=sorted(WORLDS), metavar="NAME", help=", ".join(sorted(WORLDS)))
    options.add_argument("--episodes", type=int, default=1024)
    options.add_argument("--at-once", type=int, default=64)
    chosen = report.chosen(options, episodes=64, at_once=16)
    chosen.only = chosen.only or [name for name, world in WORLDS.items() if world.cheap or not chosen.quick]
    return chosen


def processes(root: int) -> list[int]:
    """A process and all below it."""
    found: list[int] = []
    waiting = [root]
    while waiting:
        found.append(pid := waiting.pop())
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return found


async def settled() -> dict[str, float]:
    """What this process and those below it have, once what was told to end has ended, or after some two seconds."""
    gc.collect()
    now = held()
    for _ in range(10):
        before = now
        await asyncio.sleep(0.2)
        now = held()
        if (before["processes"], before["descriptors"]) == (now["processes"], now["descriptors"]):
            break
    return now


def held() -> dict[str, float]:
    """What this process and those below it have: their number, descriptors, and MB of memory that is no file's."""
    own = {"processes": 0.0, "descriptors": 0.0, "MB": 0.0}
    for pid in processes(os.getpid()):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            own["MB"] += next(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:")) / 1024
            own["descriptors"] += len(os.listdir(f"/proc/{pid}/fd"))
            own["processes"] += 1
    return own


async def soak(assembly: Assembly, episodes: int, samples: int) -> dict[str, Any]:
    """Play quarter by quarter, and look at what there is after each."""
    from scripted_engine import is_rare

    from agent_r1_core.assembly.components import make_rewards
    from agent_r1_core.rollout import RolloutRequest
    from agent_r1_core.rollout.scoring import GroupScorer
    from agent_r1_core.work.running import trim_memory

    hung, seconds, failed, marks = list[float](), list[float](), list[str](), list[dict[str, float]]()
    config: Any = assembly.config.engine.config
    groups = GroupScorer(make_rewards(assembly.resolved))

    def note(one: Trajectory, ranking: float) -> None:
        rare = is_rare(one.task.id) and bool(config.rare)
        (hung if rare else seconds).append(one.seconds + ranking)
        if not rare and one.status == "failed":
            failed.append(one.reason)

    async def ranked(rollout: RolloutResult, group: Group) -> None:
        """Compare a group, as training does behind its episodes."""
        begun = time.perf_counter()
        await groups.score(replace(rollout, groups=[group], dropped=[]))
        for one in group.trajectories:
            note(one, time.perf_counter() - begun)

    endless = cycle(assembly.train.tasks)
    tasks = [replace(next(endless), id=str(number)) for number in range(episodes // samples)]
    each, took = len(tasks) // QUARTERS, 0.0
    await assembly.start()
    try:
        for number in range(QUARTERS):
            begun = time.perf_counter()
            request = RolloutRequest(tasks[number * each : (number + 1) * each], samples, number)
            rollout = await assembly.rollouts.collect(request)
            await asyncio.gather(*(ranked(rollout, group) for group in rollout.groups))
            for one in rollout.dropped:
                note(one, 0.0)
            took += time.perf_counter() - begun
            del rollout
            trim_memory()
            marks.append(await settled())
    finally:
        groups.close()
        await assembly.close()
    first, last = marks[0], marks[-1]
    return {
        "episodes/s": each * QUARTERS * samples / took,
        "slowest s": max(seconds),
        "failed": len(failed),
        "why": sorted(set(failed))[:3],
        "hung": len(hung) or None,
        "slowest hung s": max(hung, default=None),
        "processes": int(last["processes"] - first["processes"]),
        "descriptors": int(last["descriptors"] - first["descriptors"]),
        "MB, a quarter": first["MB"],
        "MB, all": last["MB"],
        "KB/episode": 1024 * (last["MB"] - first["MB"]) / (each * (QUARTERS - 1) * samples),
    }


def play(given: dict[str, Any]) -> dict[str, Any]:
    import scripted_engine

    from agent_r1_core.assembly.assembly import assemble
    from agent_r1_core.plugins.trust import Trust
    from agent_r1_core.training.api import resolve

    engine = {"name": "scripted", "max_episodes": given["at_once"], "max_new_tokens": 200, **given["script"]}
    overrides = ["training.max_retries=0", f"engine={json.dumps(engine)}", *given["overrides"]]
    plugins, trust = [scripted_engine.__file__], Trust(named=True)
    resolved = resolve(given["recipe"], overrides, plugins=plugins, training=False, trust=trust)
    assembly = assemble(resolved, learning=False, task_sets=("train",))
    return asyncio.run(soak(assembly, given["episodes"], given["samples"]))


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """A row of the table, from a fresh process beside what it needs."""
    world = WORLDS[name]
    with world.beside() as address:
        before = set(processes(os.getpid()))
        found = report.afresh(play, world.given(address, options.episodes, options.at_once))
        time.sleep(1)
        with suppress(ChildProcessError):  # as init does for those that have ended after their parents
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        found |= {"what": name, "left": len(set(processes(os.getpid())) - before)}
    if found["hung"]:
        found["time-out s"] = world.timeout
    for reason in found["why"]:
        print(f"{name}: {reason}", flush=True)
    return {column: found.get(column) for column in COLUMNS}


def main() -> None:
    options = arguments()
    ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    rows = []
    for name in options.only:
        rows.append(measure(name, options))
        report.show(name, rows[-1:])
    report.show(f"{options.episodes:,} episodes, {options.at_once} at once", rows)
    report.save(options.out, options, {"rows": rows})


if __name__ == "__main__":
    main()
