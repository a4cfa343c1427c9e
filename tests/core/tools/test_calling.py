"""Calling plugin authors' functions."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from agent_r1_core.errors import ToolError, raised_at
from agent_r1_core.tools import calling
from agent_r1_core.tools.calling import call_within
from agent_r1_core.tools.threads import CallTimeout, ThreadPool


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


def test_async_functions_run_on_the_loop_and_others_do_not() -> None:
    here = threading.get_ident()
    assert call(thread) != here
    assert call(thread_of_the_loop) == here
    assert call(partial(Author().step, "go")) == ("go", here)
    assert call(partial(Author().later, "go")) == ("go", here)


def test_an_awaitable_has_what_is_left_of_its_calls_time(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_an_async_function_gave_in_the_last_moment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(calling, "_LOOK_SECONDS", 60.0)
    monkeypatch.setattr(calling, "time", SimpleNamespace(monotonic=lambda: clock[0]))

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
def test_what_an_authors_task_raises_does_not_end_the_event_loop(fatal: type[BaseException]) -> None:
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


@pytest.mark.parametrize("function", [exits, runs_out, partial(reads, "{")])
def test_an_error_names_the_innermost_line_of_its_authors_file(function: Any) -> None:
    with pytest.raises(Exception) as caught:
        call(function)
    code = getattr(function, "func", function).__code__
    assert raised_at(caught.value) == f" (test_calling.py, line {code.co_firstlineno + 1})"


def test_our_own_errors_name_no_line() -> None:
    def declines() -> None:
        raise ToolError("there is no such page")

    with pytest.raises(ToolError) as caught:
        call(declines)
    assert raised_at(caught.value) == ""
