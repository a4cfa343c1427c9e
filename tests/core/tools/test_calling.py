"""Calling plugin authors' functions, on the event loop and in threads that may hang; and the process that all share."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agent_r1_core
from agent_r1_core.errors import ToolError, raised_at
from agent_r1_core.tools import calling, threads
from agent_r1_core.tools.calling import call_within
from agent_r1_core.tools.process_state import SharedProcess
from agent_r1_core.tools.threads import CallTimeout, Lane, ThreadPool, TooManyLeft


def call(function: Callable[[], Any], timeout: float | None = 60.0) -> Any:
    return asyncio.run(call_within(ThreadPool(1), function, timeout))


def thread() -> int:
    return threading.get_ident()


async def thread_of_the_loop() -> int:
    return threading.get_ident()


class Author:
    """Methods as an environment may have them."""

    async def step(self, action: str) -> tuple[str, int]:
        return action, threading.get_ident()

    def later(self, action: str) -> Any:
        return self.step(action)


def test_async_functions_run_on_the_loop_and_others_do_not():
    here = threading.get_ident()
    assert call(thread) != here
    assert call(thread_of_the_loop) == here
    assert call(partial(Author().step, "go")) == ("go", here)
    assert call(partial(Author().later, "go")) == ("go", here)


def test_an_awaitable_has_what_is_left_of_its_calls_time_and_what_it_gave_in_the_last_moment_counts(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(calling, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    async def soon() -> str:
        await asyncio.sleep(0.05)
        return "too late"

    def slow() -> Any:
        clock[0] += 60.0
        return soon()

    with pytest.raises(CallTimeout):
        call(slow, 60.0)

    monkeypatch.setattr(calling, "_LOOK_SECONDS", 60.0)

    class Slow(Exception):
        def __str__(self) -> str:
            threading.Event().wait(0.05)
            return "the page is gone"

    async def last_moment() -> object:
        clock[0] += 60.0
        raise Slow

    with pytest.raises(Exception, match="the page is gone"):
        call(last_moment, 60.0)


async def exits() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("fatal", [SystemExit, KeyboardInterrupt])
def test_what_an_authors_task_raises_does_not_end_the_event_loop(fatal):
    async def fails() -> None:
        raise fatal(3)

    async def leaves_a_task() -> Any:
        (done,) = (await asyncio.wait({asyncio.create_task(fails())}))[0]
        return str(done.exception())

    assert call(leaves_a_task) == f"{fatal.__name__} was raised (3)"


def runs_out() -> None:
    raise TimeoutError("the server did not answer")


def reads(text: str) -> Any:
    return json.loads(text)


def declines() -> None:
    raise ToolError("there is no such page")


@pytest.mark.parametrize("function", [exits, runs_out, partial(reads, "{"), declines])
def test_an_error_names_the_innermost_line_of_its_authors_file_and_one_of_ours_none(function):
    with pytest.raises(Exception) as caught:
        call(function)
    code = getattr(function, "func", function).__code__
    line = "" if function is declines else f" (test_calling.py, line {code.co_firstlineno + 1})"
    assert raised_at(caught.value) == line


def test_an_error_names_the_users_file_and_not_that_of_the_packages_between(tmp_path):
    def called(function, file):
        return eval(compile("lambda: function()", str(file), "eval"), {"function": function})

    world = Path(agent_r1_core.__file__).parents[1] / "plugins" / "agent_r1_gymnasium" / "world.py"
    for function, named in ((runs_out, "test_calling.py"), (partial(json.loads, "{"), "world.py")):
        function = called(called(function, tmp_path / "site-packages" / "gym" / "core.py"), world)
        with pytest.raises(Exception) as caught:
            function()
        inner = caught.value.with_traceback(caught.value.__traceback__.tb_next)
        assert raised_at(inner).startswith(f" ({named}, line ")


async def test_a_lane_keeps_its_thread_until_a_call_hangs():
    release, pool = threading.Event(), ThreadPool(1)
    lane = pool.lane()
    first, second = [await lane.run(threading.get_ident) for _ in range(2)]
    with pytest.raises(CallTimeout):
        await lane.run(release.wait, timeout=0.02)
    assert first == second != await lane.run(threading.get_ident)
    lane.release()
    assert pool.hung == 1
    pool.close()
    release.set()


def test_a_narrow_pool_waits_without_counting_the_wait():
    """An hour goes by on the loop's clock while the only thread is taken."""

    async def work() -> int:
        release, pool, loop = threading.Event(), ThreadPool(1), asyncio.get_running_loop()
        first = asyncio.create_task(pool.run(release.wait))
        second = asyncio.create_task(pool.run(lambda: 1, timeout=60))
        clock = loop.time
        for later in (0, 3600, 3600):
            loop.time = lambda later=later: clock() + later
            await asyncio.sleep(0)
        release.set()
        return await first + await second

    assert asyncio.run(work()) == 2
    pool = ThreadPool(1)

    async def work() -> int:
        return sum(await asyncio.gather(*(pool.run(lambda: 1) for _ in range(3))))

    assert [asyncio.run(work()), asyncio.run(work())] == [3, 3]


class Held:
    """A call that does not return until it is released."""

    def __init__(self) -> None:
        self.begun, self.release = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        self.release.wait()

    async def cancelled_in(self, place: ThreadPool | Lane) -> None:
        """Begin it there, and cancel it."""
        task = asyncio.create_task(place.run(self))
        await asyncio.to_thread(self.begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_cancelled_call_leaves_the_pool_usable_and_costs_its_lane_the_grace_only(monkeypatch):
    held, pool = Held(), ThreadPool(1)
    await held.cancelled_in(pool)
    assert await pool.run(lambda: "still here", timeout=60) == "still here"
    held.release.set()
    monkeypatch.setattr(threads, "GRACE_SECONDS", 0.01)
    held, lane = Held(), ThreadPool(1).lane()
    await held.cancelled_in(lane)
    for name in ("next", "last"):
        assert await asyncio.wait_for(lane.run(lambda name=name: name), timeout=60) == name
    held.release.set()


@pytest.mark.parametrize(("change", "while_others_run"), [(500, 500), (-100, 0)])
def test_a_higher_recursion_limit_lasts_as_long_as_any_call_a_lower_one_ends_with_its_call(change, while_others_run):
    before, process = sys.getrecursionlimit(), SharedProcess()
    try:
        process.begin("deep")
        process.begin("quick")
        sys.setrecursionlimit(before + change)
        process.returned("quick")
        process.end()
        assert sys.getrecursionlimit() == before + while_others_run
        process.returned("deep")
        process.end()
        assert sys.getrecursionlimit() == before
    finally:
        sys.setrecursionlimit(before)


def test_a_timer_that_a_call_leaves_running_is_stopped_and_an_earlier_one_is_not():
    process = SharedProcess()
    try:
        signal.setitimer(signal.ITIMER_PROF, 3600)
        process.begin("sleepy")
        signal.setitimer(signal.ITIMER_VIRTUAL, 3600)
        process.returned("sleepy")
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0
        assert signal.getitimer(signal.ITIMER_PROF)[0] > 0
        process.end()
    finally:
        for timer in (signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)


def test_handlers_of_signals_that_change_while_no_tool_runs_on_the_loop_stay():
    """Also after several tools ran at once."""
    process, before = SharedProcess(), signal.getsignal(signal.SIGTERM)
    handlers: list[Any] = [lambda number, frame: None for _ in range(2)]
    try:
        for handler in handlers:
            signal.signal(signal.SIGTERM, handler)
            for _ in range(2):
                process.begin_on_loop()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for _ in range(2):
                process.end_on_loop("rude")
            assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_a_call_that_was_given_up_and_goes_on_is_named(monkeypatch):
    for name, value in (("MOST_LEFT", 1), ("LEFT_SECONDS", 0.0)):
        monkeypatch.setattr(threads, name, value)
    release, pool = threading.Event(), ThreadPool(1)
    with pytest.raises(CallTimeout):
        await pool.run(release.wait, timeout=0.02, name="tool lookup")
    with pytest.raises(TooManyLeft, match="most of them of tool lookup; make it end by itself"):
        await pool.wait_for_room()
    release.set()
