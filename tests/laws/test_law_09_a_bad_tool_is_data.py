"""LAW 9: a bad tool is data, not a crash.

Time never decides here: hung calls wait for an event that the test sets when everybody else is done.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bad_tools
import pytest
import torch
from bad_tools import RELEASE
from stage import BOTH_MODES, ROUND, Stage, call, questions

from agent_r1_core import Sampling
from agent_r1_core.errors import ConfigError, EpisodeError
from agent_r1_core.rollout import RolloutRequest, RolloutResult
from agent_r1_core.testing import Cue, ScriptedPolicy
from agent_r1_core.tools import threads
from agent_r1_core.trajectory import EndStatus, Trajectory

FOR_EVER = 3 * bad_tools.PATIENCE
"""Seconds: a time-out that no sound test reaches."""
ROOMY = {"max_turns": 9, "max_tokens": 9000}
pytestmark = pytest.mark.usefixtures("released")
ISOLATION = pytest.mark.parametrize("isolation", ["thread", "process"])
CIRCLE = "more than 100 values within one another; return less, and nothing in a circle."


def tools(*names: str) -> list[Any]:
    return [getattr(bad_tools, name)() for name in ("lookup", *names)]


def one_bad_call(bad: str) -> ScriptedPolicy:
    """A policy that makes the bad call in task q0 and looks the name up in all others; then it answers."""

    def script(cue: Cue) -> str:
        if cue.turn > 0:
            return "<answer>Tavelo</answer>"
        return bad if cue.request.episode.split("/")[1] == "q0" else call("lookup", name="Karimo")

    return ScriptedPolicy(script)


def seen(trajectory: Trajectory) -> str:
    """What the policy read after its first action."""
    return str(trajectory.turns[1].observation[0]["content"])


def alone(result: RolloutResult) -> tuple[Trajectory, list[Trajectory]]:
    """The trajectory of q0, and those of the others, each of which found its name."""
    first, *others = [group.trajectories[0] for group in result.groups]
    assert first.task.id == "q0"
    for one in others:
        assert seen(one) == "Karimo was born in Tavelo."
    assert all(one.status is EndStatus.TERMINATED for one in (first, *others))
    return first, others


@BOTH_MODES
@pytest.mark.parametrize("tool", ["fail", "fail_async"])
@pytest.mark.parametrize("kind", list(bad_tools.ERRORS))
def test_whatever_a_tool_raises_becomes_an_observation(tool: str, kind: str, deterministic: bool) -> None:
    stage = Stage(one_bad_call(call(tool, kind=kind)), tools(tool), deterministic=deterministic)
    first, others = alone(stage.play(questions(4)))
    assert seen(first).startswith("Error: ")
    assert len(others) == 3
    assert (stage.counts.total.calls, stage.counts.total.errors, stage.counts.total.timeouts) == (4, 1, 0)


@ISOLATION
@pytest.mark.parametrize("kind", ["10 MB", "10 MB of bytes", "10 MB of JSON", "sly"])
def test_a_gigantic_answer_is_clipped(kind: str, isolation: str) -> None:
    stage = Stage(one_bad_call(call("answer", kind=kind)), tools("answer"), isolation={"answer": isolation}, env=ROOMY)
    first, _ = alone(stage.play(questions(2)))
    assert "characters cut]" in seen(first)
    assert len(seen(first)) < 2100
    assert first.answer == "Tavelo", "the episode must go on within its budget"


@ISOLATION
@pytest.mark.parametrize(
    ("tool", "how", "text"),
    [
        *(("fail", name, f"Error: fail failed with {name}.") for name in ("ValueError", "SystemExit", "Rude", "Mute")),
        ("Picky", "leaves when validated", "Error: picky failed with SystemExit: 3."),
        ("answer", "bytes", "ok \ufffd\ufffd\x00"),
        ("answer", "surrogate", "ok ?"),
        ("answer", "nothing", "(no result)"),
        ("answer", "circle", f"Error: answer returned {CIRCLE}"),
        ("answer", "unprintable", "Error: answer failed with ValueError: no words."),
    ],
)
def test_what_is_no_text_becomes_one(tool: str, how: str, text: str, isolation: str) -> None:
    name = tool.lower()
    stage = Stage(one_bad_call(call(name, kind=how)), tools(tool), isolation={name: isolation})
    first, _ = alone(stage.play(questions(2)))
    assert seen(first) == text


@pytest.mark.parametrize("tool", ["hang", "hang_async"])
def test_a_hung_tool_costs_its_own_time_out(tool: str) -> None:
    stage = Stage(one_bad_call(call(tool)), tools(tool), timeouts={tool: 0.05, "lookup": FOR_EVER})
    result = stage.play(questions(4))
    first, _ = alone(result)
    assert seen(first) == f"Error: {tool} did not answer within 0.05 seconds."
    assert (stage.counts.total.timeouts, stage.counts.total.errors, result.metrics["tools/timeouts"]) == (1, 1, 1.0)


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("hang", {}, "late"),
        ("Picky", {"kind": "hangs when validated"}, '"late"'),
        ("PickyAsync", {"kind": "hangs when validated"}, '"late"'),
        ("Picky", {"kind": "has a slow text"}, '"late"'),
        ("PickyAsync", {"kind": "has a slow text"}, '"late"'),
    ],
    ids=["run", "validation", "async validation", "text", "async text"],
)
def test_a_hung_tool_costs_nobody_elses_time(tool: str, arguments: dict[str, str], text: str) -> None:
    """Every other episode comes to its end while the call hangs; only then is it let go."""
    ended: list[str] = []

    def on_episode(trajectory: Trajectory) -> None:
        ended.append(trajectory.task.id)
        if len(ended) == 7:
            RELEASE.set()

    name = tool.lower().removesuffix("async")
    stage = Stage(one_bad_call(call(name, **arguments)), tools(tool), timeouts={name: FOR_EVER}, max_episodes=8)
    first, _ = alone(stage.play(questions(8), on_episode=on_episode))
    assert ended[-1] == "q0"
    assert seen(first) == text
    assert stage.counts.total.timeouts == 0


@pytest.mark.parametrize(
    ("tool", "bounds", "sentence"),
    [
        ("hang", {"MOST_LEFT": 3}, "3 calls still run in threads"),
        ("loop", {"MOST_LOOPS": 1, "LOOP_SECONDS": 0.05}, r"\d calls still compute in threads"),
    ],
)
def test_too_many_hung_threads_end_the_rollout_with_advice(tool, bounds, sentence, monkeypatch):
    for name, value in {**bounds, "LEFT_SECONDS": 0.3}.items():
        monkeypatch.setattr(threads, name, value)
    policy = ScriptedPolicy([*[call(tool)] * 8, "<answer>x</answer>"])
    stage = Stage(policy, tools(tool), timeouts={tool: 0.05}, env=ROOMY | {"max_turns": 12})
    with pytest.raises(EpisodeError, match=rf"{sentence} .* of tool {tool}; .* give a tool isolation: process"):
        stage.play(questions(1))


@ISOLATION
def test_the_trajectory_keeps_the_arguments_that_the_model_wrote(isolation: str) -> None:
    stage = Stage(one_bad_call(call("collect", names=["Karimo"])), tools("collect"), isolation={"collect": isolation})
    first, _ = alone(stage.play(questions(1)))
    assert seen(first) == "2"
    assert first.turns[0].calls[0].arguments == {"names": ["Karimo"]}


def process_state() -> dict[str, Any]:
    """What tools may change in this process, as the warnings call it."""
    os.umask(umask := os.umask(0o022))
    return {
        "what is logged": logging.getLogger("agent_r1_core.rollout.collector").isEnabledFor(logging.WARNING),
        "working directory": os.getcwd(),
        "recursion limit": sys.getrecursionlimit(),
        "default dtype": torch.get_default_dtype(),
        "sys.stdout": sys.stdout,
        "handler of SIGINT": signal.getsignal(signal.SIGINT),
        "the umask": umask,
        "descriptors of standard output": os.fstat(1).st_ino,
        "alarm": signal.getitimer(signal.ITIMER_REAL),
        "limit of the system": resource.getrlimit(resource.RLIMIT_FSIZE),
    }


@pytest.fixture
def kept_process() -> Iterator[None]:
    """Puts back what a failing test leaves."""
    umask, output, limit = os.umask(0o022), os.dup(1), resource.getrlimit(resource.RLIMIT_FSIZE)
    os.umask(umask)
    yield
    signal.alarm(0)
    os.umask(umask)
    os.dup2(output, 1)
    os.close(output)
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)


@pytest.mark.usefixtures("kept_process")
def test_what_a_tool_changes_in_the_process_is_put_back_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    before = process_state()
    policy = ScriptedPolicy([*[call("meddle") + call("meddle_async")] * 2, "<answer>x</answer>"])
    result = Stage(policy, tools("meddle", "meddle_async"), env=ROOMY).play(questions(3))
    assert len(result.groups) == 3
    assert process_state() == before
    assert before["what is logged"]
    told = [record.getMessage() for record in caplog.records]
    for what in before:
        (sentence,) = [text for text in told if what in text]
        assert "it was put back: with isolation: process" in sentence


@pytest.mark.parametrize("name", ["close_output", "close_output_late"])
def test_standard_streams_that_a_tool_closes_are_opened_again(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Also by a call that was given up, once no other runs."""
    copies = {stream: os.dup(stream) for stream in (1, 2)}
    try:
        alone(Stage(one_bad_call(call(name)), tools(name), timeouts={"close_output_late": 0.05}).play(questions(2)))
        late = time.monotonic() + bad_tools.PATIENCE
        while "changed the descriptors" not in caplog.text and time.monotonic() < late:
            time.sleep(0.01)
        assert all(os.path.sameopenfile(stream, copy) for stream, copy in copies.items())
    finally:
        for stream, copy in copies.items():
            os.dup2(copy, stream)
            os.close(copy)
    assert "changed the descriptors of standard output and standard error" in caplog.text


def test_streams_of_python_that_a_tool_closes_are_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, (tmp_path / name).open("w"))
    alone(Stage(one_bad_call(call("close_streams")), tools("close_streams")).play(questions(2)))
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        assert os.path.sameopenfile(stream.fileno(), descriptor)
        stream.close()
    assert "changed sys.stdout or sys.stderr" in caplog.text


def test_a_copy_that_a_tool_forks_ends_at_once() -> None:
    first, _ = alone(Stage(one_bad_call(call("fork")), tools("fork")).play(questions(2)))
    copy = int(seen(first))
    try:
        assert select.select([os.pidfd_open(copy)], [], [], bad_tools.PATIENCE)[0], "it still runs"
    finally:
        os.kill(copy, signal.SIGKILL)
        os.waitpid(copy, 0)


@pytest.mark.parametrize("trick", list(bad_tools.TRICKS))
def test_no_isolated_call_gets_the_answer_of_another(trick: str) -> None:
    """One process serves all calls, one after the other, as long as it lives."""

    def script(cue: Cue) -> str:
        name = f"{cue.request.episode} {cue.turn}"
        return call("echo", name=name, trick=trick) if cue.turn < 3 else "<answer>x</answer>"

    options: dict[str, Any] = {"isolation": {"echo": "process"}, "max_episodes": 1, "env": {"max_turns": 4}}
    result = Stage(ScriptedPolicy(script), tools("echo"), **options).play(questions(2))
    for one in result.trajectories:
        for turn in range(3):
            answer = one.turns[turn + 1].observation[0]["content"]
            own = f"{ROUND}/{one.task.id}/0/1 {turn}"
            assert answer == own or answer.startswith("Error: echo failed with RuntimeError: its process "), answer
    assert len(result.groups) == 2


@pytest.mark.parametrize("then", ["answer", "hang", "end"])
def test_nothing_outlives_the_process_of_an_isolated_tool(then: str, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    policy = one_bad_call(call("daemon", then=then, pid_file=str(file)))
    options: dict[str, Any] = {"sampling": Sampling(max_new_tokens=300), "isolation": {"daemon": "process"}}
    seconds = 1.0 if then == "hang" else FOR_EVER
    while not file.exists() or not file.read_text():  # on a busy machine the call may be given up before it is there
        Stage(policy, tools("daemon"), timeouts={"daemon": seconds}, **options).play(questions(1))
        seconds *= 2
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


def test_nothing_outlives_a_training_that_is_killed(tmp_path: Path) -> None:
    """Its call has left a process and has been answered; then the training is killed."""
    file, folder = tmp_path / "pid", Path(__file__).parent
    script = """
import asyncio, random, sys, bad_tools
from agent_r1_core import ToolCall, ToolContext, ToolResources
from agent_r1_core.tools.tool_runner import ToolRunner
from agent_r1_core.trajectory import Task

async def main():
    runner = ToolRunner({"daemon": bad_tools.daemon()}, isolation={"daemon": "process"})
    await runner.start(ToolResources(""))
    call = ToolCall("daemon", {"then": "answer", "pid_file": sys.argv[1]})
    context = ToolContext("episode", 0, Task("task", "", ()), random.Random(0))
    print((await runner.call(call, context)).text, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
    command = [sys.executable, "-c", script, str(file)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as training:
        try:
            assert training.stdout.readline() == "left\n"
            left = os.pidfd_open(int(file.read_text()))
        finally:
            training.kill()
    assert select.select([left], [], [], bad_tools.PATIENCE)[0], "it still runs"


@pytest.mark.parametrize("shape", list(bad_tools.FLOODS))
def test_an_isolated_tool_cannot_fill_the_memory_of_the_training(shape: str) -> None:
    stage = Stage(one_bad_call(call("flood", shape=shape)), tools("flood"), isolation={"flood": "process"})
    tracemalloc.start()
    try:
        first, _ = alone(stage.play(questions(2)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen(first) == "Error: flood failed with RuntimeError: its process answered out of turn."
    assert peak < 20e6


def test_the_pool_is_as_wide_as_the_concurrency() -> None:
    """All episodes' calls are under way at once: the last one to come in lets all of them go."""
    waiting = threading.Barrier(16)

    class Meeting(bad_tools.hang):  # type: ignore[misc, valid-type]
        name = "hang"

        def run(self, arguments: Any, context: Any) -> str:
            waiting.wait(bad_tools.PATIENCE)
            return "met"

    policy = ScriptedPolicy([call("hang"), "<answer>x</answer>"])
    result = Stage(policy, [Meeting()], timeouts={"hang": FOR_EVER}, max_episodes=16).play(questions(16))
    assert [seen(group.trajectories[0]) for group in result.groups] == ["met"] * 16


def test_hung_threads_are_replaced_and_counted() -> None:
    """More calls hang, one after the other, than the pool is wide; the next call finds a thread all the same."""
    turns = 6
    script = [*["\n".join([call("hang")] * 4)] * turns, call("lookup", name="Karimo"), "<answer>x</answer>"]
    options: dict[str, Any] = {"timeouts": {"hang": 0.02, "lookup": FOR_EVER}, "max_episodes": 1, "env": ROOMY}
    stage = Stage(ScriptedPolicy(script), tools("hang"), **options)
    result = stage.play(questions(1), on_episode=lambda _: RELEASE.set())
    (one,) = result.groups[0].trajectories
    assert one.turns[turns + 1].observation[0]["content"] == "Karimo was born in Tavelo."
    assert stage.counts.hung == stage.counts.total.timeouts == 4 * turns
    assert result.metrics["rollout/hung"] == 4.0 * turns


def test_hung_threads_do_not_delay_the_exit(warm: Path) -> None:
    """A whole process: it hangs in tools, environments and rewards, and ends."""
    command = [warm, Path(__file__).with_name("hanging_rollout.py")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().split() == ["tools", "2", "dropped", "2", "threads", "4"]
        try:
            assert process.wait(bad_tools.PATIENCE) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("how", ["regular expression", "integers"])
def test_a_tool_that_keeps_the_interpreter_is_killed_at_its_deadline(how: str, tmp_path: Path) -> None:
    """No thread of its process runs while it spins, so only a process of its own can be stopped."""
    file, seconds = tmp_path / "pid", 0.25
    policy = one_bad_call(call("spin", how=how, pid_file=str(file)))
    options: dict[str, Any] = {"sampling": Sampling(max_new_tokens=300), "isolation": {"spin": "process"}}
    while not file.exists() or not file.read_text():  # on a busy machine the call may be given up before it is there
        seconds *= 2
        stage = Stage(policy, tools("spin"), timeouts={"spin": seconds}, **options)
        result = stage.play(questions(3))
    first, _ = alone(result)
    assert seen(first) == f"Error: spin did not answer within {seconds:g} seconds."
    assert (stage.counts.hung, result.metrics["rollout/hung"]) == (1, 1.0)
    assert int(file.read_text()) != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


@BOTH_MODES
def test_a_tool_releases_every_episode_that_called_it_once(deterministic: bool) -> None:
    """Also one whose call failed or was given up, and one that failed or was cancelled; calls of a turn keep order."""
    hold = bad_tools.Holder()

    def script(cue: Cue) -> str:
        first = {
            "q0": call("hold", word="first") + "\n" + call("hold", word="second"),
            "q1": call("hold", word="failed", how="fail"),
            "q2": call("hold", word="hung", how="hang"),
            "q3": call("hold", word="lost"),
            "q4": call("lookup", name="Karimo"),
            "q5": call("hold", word="rude"),
            "end": call("hold", word="cancelled", how="hang"),
        }
        task = cue.request.episode.split("/")[1]
        if cue.turn and task == "q3":
            raise ValueError("no words")
        return "<answer>Tavelo</answer>" if cue.turn else first[task]

    options: dict[str, Any] = {"timeouts": {"hold": 0.5}, "max_retries": 1, "max_episodes": 1}
    stage = Stage(ScriptedPolicy(script), [hold, bad_tools.lookup()], deterministic=deterministic, **options)

    async def play() -> RolloutResult:
        result = await stage.collector.collect(RolloutRequest(questions(6), 1, ROUND))
        last = RolloutRequest([replace(questions(1)[0], id="end")], 1, ROUND)
        cancelled = asyncio.create_task(stage.collector.collect(last))
        while not hold.held:
            await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait({cancelled})
        return result

    result = stage.run(play())
    assert not hold.held
    expected = ["first second", "failed", "hung", "lost", "lost", "rude", "cancelled"]
    assert sorted(" ".join(said) for _, said in hold.released) == sorted(expected)
    assert len({episode for episode, _ in hold.released}) == len(expected), "each attempt is an episode of its own"
    (both,) = result.groups[0].trajectories
    assert [message["content"] for message in both.turns[1].observation] == ["first", "first second"]


def test_a_tool_that_releases_episodes_is_not_isolated() -> None:
    with pytest.raises(ConfigError, match="tool hold holds something for each episode"):
        Stage(ScriptedPolicy([""]), [bad_tools.Holder()], isolation={"hold": "process"})
