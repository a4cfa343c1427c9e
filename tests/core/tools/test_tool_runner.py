"""Whatever a tool does becomes a result."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import bad_tools
import misbehaving_tools as tools
import pytest
from pydantic import Field
from tool_calls import RESOURCES, context, opened, run

from agent_r1_core import Passage, Tool, ToolCall, ToolContext, tool
from agent_r1_core.contracts.tool import ToolLimits
from agent_r1_core.errors import ConfigError, ToolError
from agent_r1_core.metrics.rollouts import SCALE
from agent_r1_core.plugins import Registry
from agent_r1_core.runs.call_log import CallLog, unfinished_calls
from agent_r1_core.tools import isolated
from agent_r1_core.tools.corpus_files import CorpusFiles
from agent_r1_core.tools.threads import CallTimeout
from agent_r1_core.tools.tool_runner import ToolRunner

PLUGIN = Path(__file__).parents[1] / "testing" / "my_tool.py"


def made(*names: str) -> dict[str, Any]:
    """Misbehaving tools by name."""
    instances = {name: getattr(tools, name)() for name in names}
    for name, instance in instances.items():
        instance.name = name
    return instances


def of_episodes(runner: ToolRunner, call: ToolCall, episodes: str) -> list[Any]:
    """Calls to start at once, each of an episode of its own."""
    return [runner.call(call, replace(context(), episode=name)) for name in episodes]


def test_what_goes_wrong_is_one_sentence():
    wrong = {"nom": 1, "times": "many"}
    calls = [("fly", {}), ("lookup", wrong), ("act", {"how": "decline"}), ("act", {"how": "break"})]
    results = run(ToolRunner(made("act", "lookup")), *calls)
    assert [result.text for result in results] == [
        "Error: there is no tool 'fly'; the tools are: act, lookup.",
        "Error: wrong arguments for lookup: name: field required; times: input should be a valid integer, unable to "
        "parse string as an integer; nom: is no argument.",
        "Error: the page is gone; ask for another",
        "Error: act failed with ValueError: no such page at all.",
    ]
    assert all(result.error for result in results)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_what_a_tool_records_reaches_its_metrics(isolation):
    runner = ToolRunner(made("counted"), isolation={"counted": isolation})
    (result,) = run(runner, ("counted", {"name": "Karimo"}))
    assert 0 < result.seconds == runner.counts.total.seconds
    assert runner.counts.by_tool["counted"].numbers == {"letters": (6.0 * SCALE, 1)}


def test_opened_tools_describe_themselves_and_a_failure_is_told():
    index = tools.Index(tools.Index.Config(unit="texts"))
    runner = ToolRunner({"index": index, **made("lookup", "BadIndex")}, isolation={"index": "process"})
    (result,) = run(runner, ("index", {}))
    assert result.text == "2 texts: Karimo, Tavelo", "its configuration and its corpora reach its process"
    assert runner.describe() == {
        "index": {"passages": 2},
        "BadIndex": {"error": "describe() failed with ZeroDivisionError"},
    }


def test_a_tool_that_cannot_be_opened_says_why_also_if_its_process_dies_or_does_not_find_it():
    closed = tools.Closed()
    closed.name = "closed"
    for isolation in ("thread", "process"):
        with pytest.raises(ToolError, match=r"closed cannot be opened: OSError: the disk is full \(.+.py, line \d+\)"):
            run(ToolRunner({"closed": closed}, isolation={"closed": isolation}))
    with pytest.raises(ToolError, match=r"^tool Dying cannot be opened: its process died; check its open\(\)"):
        run(ToolRunner(made("Dying"), isolation={"Dying": "process"}))

    @tool
    def local() -> str:
        """Be local."""
        return ""

    with pytest.raises(ConfigError, match="no other process finds it; move it into a module"):
        ToolRunner({"local": local()}, isolation={"local": "process"})


def test_the_log_of_calls_names_those_under_way(tmp_path):
    class Looking(Tool):
        """Reads the log."""

        def run(self, arguments: Any, context: ToolContext) -> Any:
            return str(unfinished_calls(tmp_path))

    class LookingLater(Looking):
        async def run(self, arguments: Any, context: ToolContext) -> Any:
            await asyncio.sleep(0)
            return super().run(arguments, context)

    log = CallLog(tmp_path)
    for looking in (Looking(), LookingLater()):
        looking.name = "looking"
        runner = ToolRunner({"looking": looking})
        runner.log_calls(log)
        (result,) = run(runner, ("looking", {}), shared=context(turn=3))
        assert "while calls of tools ran in it: looking (episode episode, turn 3); if a tool ended it" in result.text
        assert unfinished_calls(tmp_path) is None


def test_a_process_keeps_tools_apart():
    names = ("whoami", "later", "act")
    runner = ToolRunner(made(*names), isolation=dict.fromkeys(names, "process"))
    shared = context(turn=2)
    calls = [("whoami", {})] * 2
    first, second, late, broken = run(runner, *calls, ("later", {"name": "é"}), ("act", {"how": "die"}), shared=shared)
    told = [json.loads(who.text) for who in (first, second)]
    assert all(one["process"] != os.getpid() and one["in time"] for one in told)
    assert {(one["episode"], one["turn"], one["task"], one["calls"]) for one in told} == {
        ("episode", 2, "task", number) for number in (1, 2)
    }, "calls of one episode find the state that the last one left"
    assert (shared.state, late.text) == ({"calls": 2}, '{"name": "é"}')
    assert (broken.text, broken.error) == ("Error: act failed with RuntimeError: its process died.", True)


def test_the_calls_of_an_isolated_tool_run_in_the_thread_that_opened_it():
    for isolation, text in (("process", "2"), ("thread", "Error: Sql failed with ProgrammingError: SQLite objects")):
        results = run(ToolRunner(made("Sql"), isolation={"Sql": isolation}), *[("Sql", {})] * 4)
        assert (all if isolation == "process" else any)(result.text.startswith(text) for result in results)


def test_state_and_random_numbers_travel_to_a_process_and_back():
    """A process gives what a thread gives, and leaves the context as a thread does, even if the tool declines."""
    calls = [("count", {"fail": fail}) for fail in (False, True, False)]
    seen = {}
    for isolation in ("thread", "process"):
        shared = context(seed=3)
        shared.state.update({"noted": "x", "others": [1]})
        shared.rng.gauss(0, 1)
        runner = ToolRunner(made("count"), isolation={"count": isolation})
        texts = [run(runner, call, shared=shared)[0].text for call in calls]
        seen[isolation] = (texts, shared.state, shared.rng.random(), shared.rng.gauss(0, 1))
    assert seen["thread"] == seen["process"]
    assert seen["process"][1] == {"calls": 3, "others": [1]}


def test_what_a_process_prints_goes_to_standard_error_and_state_that_it_could_not_give_back_is_an_error(capfd):
    """What a command writes to standard output may be read by another program."""
    shared, runner = context(), ToolRunner(made("act"), isolation={"act": "process"})
    said, kept = run(runner, ("act", {"how": "print"}), ("act", {"how": "keep a tuple"}), shared=shared)
    assert "context.state holds what JSON cannot carry, such as a tuple" in kept.text
    assert (said.text, shared.state) == ("done", {})
    out, err = capfd.readouterr()
    assert out == ""
    assert "I look it up" in err


def test_a_process_takes_no_more_than_its_limits(tmp_path):
    limits = {"act": ToolLimits(memory=0.5, file_size=0.5)}
    runner = ToolRunner(made("act"), isolation={"act": "process"}, limits=limits)
    hoarded, filled = run(runner, ("act", {"how": "hoard"}), ("act", {"how": "fill", "folder": str(tmp_path)}))
    assert hoarded.text == "Error: act failed with MemoryError."
    assert "File too large" in filled.text


@pytest.mark.slow
async def test_a_message_that_is_too_large_costs_no_process():
    runner = ToolRunner(made("whoami", "remember"), isolation={"whoami": "process", "remember": "process"})
    roomy, full = context(), context()
    full.state["notes"] = "x" * (2 << 20)

    async with opened(runner):
        sent = [await runner.call(ToolCall("whoami", {}), each) for each in (roomy, full, roomy)]
        before, refused, after = sent
        not_kept, kept = [await runner.call(ToolCall("remember", {"lists": n}), roomy) for n in (10**6, 10)]
    for answer in (refused, not_kept):
        assert "too much for a message to another process; keep less in the state" in answer.text
    assert json.loads(before.text)["process"] == json.loads(after.text)["process"]
    assert (kept.text, len(roomy.state["lists"])) == ("kept", 10)


def orderly(notes: Path, most: int = 99) -> dict[str, Any]:
    """The tool that notes when it is opened and closed, in processes."""
    instance = tools.Orderly(tools.Orderly.Config(notes=str(notes), most=most))
    instance.name, instance.isolation = "orderly", "process"
    return {"orderly": instance}


@pytest.mark.slow
def test_processes_close_their_tool_and_leave_no_process_behind(tmp_path):
    (left,) = run(ToolRunner(orderly(tmp_path / "notes")), ("orderly", {}))
    notes = (tmp_path / "notes").read_text().split()
    assert notes.count("closed") == notes.count("opened") >= 1
    with contextlib.suppress(ProcessLookupError):
        assert select.select([os.pidfd_open(int(left.text))], [], [], 60)[0], "it still runs"


@tool
def described(
    a: int, b: Annotated[int, Field(ge=1, le=5, description="Between")] = 1, c: str = Field("x", min_length=1)
):
    """Does it.

    Args:
        a: The first line
            of two: lines.
        c (str): One of the following,
            a: no other.

    Returns:
        a: Nothing.
    """
    return f"{a} {b} {c!r}"


def test_what_an_author_says_of_arguments_reaches_the_model_whole_and_holds():
    properties = described().schema()["function"]["parameters"]["properties"]
    assert {name: one["description"] for name, one in properties.items()} == {
        "a": "The first line of two: lines.",
        "b": "Between",
        "c": "One of the following, a: no other.",
    }
    assert (properties["b"]["maximum"], properties["c"]["default"]) == (5, "x")
    runner = ToolRunner({"described": described()})
    calls = [("described", {"a": 1}), ("described", {"a": 1, "b": 77})]
    first, second = run(runner, *calls)
    assert (first.text, second.error) == ("1 1 'x'", True)


@tool
async def dozes() -> str:
    """Sleeps."""
    await asyncio.sleep(60)
    return ""


def test_only_a_call_in_a_thread_is_said_to_run_on(caplog):
    (result,) = run(ToolRunner({"dozes": dozes()}, {"dozes": 0.05}), ("dozes", {}))
    assert "did not answer within" in result.text
    assert "cannot be ended" not in caplog.text


async def test_further_processes_that_cannot_start_are_told_once_and_not_tried_without_end(tmp_path, caplog):
    runner = ToolRunner(orderly(tmp_path / "notes", most=1))
    async with opened(runner):
        answers = await asyncio.gather(*of_episodes(runner, ToolCall("orderly", {}), "abc"))
        while "is missing" not in caplog.text:
            await asyncio.sleep(0.01)  # on a busy machine the second process takes its time to fail
    assert not any(answer.error for answer in answers)
    assert (tmp_path / "notes").read_text().split().count("opened") <= 4
    assert caplog.text.count("a process of tool orderly is missing") == 1


def test_starts_that_fail_wait_longer_each_time_and_are_told_once(monkeypatch, caplog):
    monkeypatch.setattr(isolated, "time", SimpleNamespace(monotonic=lambda: 100.0))
    lookup, waits = isolated.IsolatedTool(made("lookup")["lookup"], 4, ToolLimits()), []
    for _ in range(8):
        lookup._fail("out of memory")
        waits.append(lookup._next_start - 100.0)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert caplog.text.count("a process of tool lookup is missing (out of memory); its calls share the others") == 1


def test_a_process_imports_nothing_from_the_folder_that_it_starts_in(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise RuntimeError('imported')")
    monkeypatch.chdir(tmp_path)
    (answer,) = run(ToolRunner(made("lookup"), isolation={"lookup": "process"}), ("lookup", {"name": "Karimo"}))
    assert answer.text == "Karimo was born in Tavelo."


def test_a_process_runs_the_plugin_file_as_it_was_read(tmp_path):
    file = tmp_path / "changing.py"
    file.write_text(PLUGIN.read_text())
    multiply = Registry.discover([file]).create("tool", "multiply")
    file.write_text(PLUGIN.read_text().replace("a * b", "a + b"))
    runner = ToolRunner({"multiply": multiply}, isolation={"multiply": "process"})
    (answer,) = run(runner, ("multiply", {"a": 2, "b": 3}))
    assert answer.text == "6"


def test_many_short_calls_share_the_processes_that_stand_ready(monkeypatch):
    monkeypatch.setattr(isolated, "PATIENCE", 2.0)  # on a busy machine a short call takes its time
    runner = ToolRunner(made("whoami"), isolation={"whoami": "process"})
    processes = {json.loads(answer.text)["process"] for answer in run(runner, *[("whoami", {})] * 40)}
    assert len(processes) <= 3


@pytest.mark.slow
async def test_calls_that_find_no_free_process_get_one_of_their_own(tmp_path):
    runner = ToolRunner(made("meet"), {"meet": 60}, {"meet": "process"}, max_concurrency=4)
    async with opened(runner):
        call = ToolCall("meet", {"folder": str(tmp_path), "guests": 4})
        answers = await asyncio.gather(*of_episodes(runner, call, "abcd"))
    assert [answer.text for answer in answers] == ["4"] * 4


def test_runners_share_corpus_files_and_delete_what_a_killed_run_left(tmp_path):
    corpora = {"train": lambda: [Passage("Karimo", "A poet.")], "none": lambda: None}
    (tmp_path / "left.jsonl").write_text("by a killed run")
    first, second = CorpusFiles(tmp_path), CorpusFiles(tmp_path)
    files = first.write(corpora)
    assert second.write(corpora) == files
    assert json.loads((tmp_path / files["train"]).read_text()) == {"title": "Karimo", "text": "A poet."}
    assert sorted(map(str, tmp_path.iterdir())) == sorted(files.values())
    first.close()
    assert sorted(map(str, tmp_path.iterdir())) == sorted(files.values())
    second.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_process_that_misses_its_deadline_is_killed_then_and_not_at_the_end(tmp_path):
    spin = isolated.IsolatedTool(bad_tools.spin(), 1, ToolLimits())
    await spin.start(RESOURCES, {})
    (process,) = spin._all
    try:
        with pytest.raises(CallTimeout):
            await spin.call({"how": "integers", "pid_file": str(tmp_path / "pid")}, context(), 0.2)
        ended = await asyncio.to_thread(process._process.wait, 60)
        assert ended == 128 + signal.SIGKILL
        async with asyncio.timeout(60):
            while not spin._all:
                await asyncio.sleep(0.01)  # for the process that takes its place
    finally:
        await spin.close()


TOO_LATE = """
import os, sys
from agent_r1_core.tools.isolated_keeper import _obey
ended = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", ""])
os.waitpid(ended, 0)
_obey(ended, 0.0)
"""


def test_a_process_that_has_ended_by_itself_is_ended_without_a_word():
    """The order of the training process may come too late."""
    done = subprocess.run([sys.executable, "-c", TOO_LATE], stdin=subprocess.DEVNULL, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def use(function: Callable[[], Any], timeout: float = 20) -> Any:
    """A tool's own function, as a baseline calls its search, has the time-out of the tool's calls."""
    return asyncio.run(ToolRunner(made("lookup"), {"lookup": timeout}).use("lookup", function, str.upper))


def decline() -> str:
    raise ToolError("the query is empty")


async def later() -> str:
    return "a page"


def test_what_a_tools_own_function_gives_is_converted_and_its_failures_are_one_sentence():
    assert use(lambda: "a page") == use(later) == "A PAGE"
    release = threading.Event()
    for function, timeout, sentence in (
        (lambda: sys.exit(3), 20, "tool lookup failed with RuntimeError: SystemExit was raised"),
        (lambda: None, 20, "tool lookup failed with TypeError"),
        (decline, 20, "^the query is empty$"),
        (lambda: release.wait(20), 0.1, r"lookup did not answer within 0\.1 seconds; make it faster, or raise"),
    ):
        with pytest.raises(ToolError, match=sentence):
            use(function, timeout)
    release.set()
