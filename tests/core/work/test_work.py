"""Long work: told to whoever watches, in whichever thread it is done; else logged now and then. On the screen it is a
live bar on a terminal, and sparse lines elsewhere."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import re
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from agent_r1_core.work import Work, WorkDisplay, duration, watched_by, working
from agent_r1_core.work import display as display_module
from agent_r1_core.work import work as work_module
from agent_r1_core.work.running import run_async


class Clock:
    """Stands where it is until a test moves it."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(work_module, "time", clock)
    monkeypatch.setattr(display_module, "time", clock)
    return clock


def test_work_knows_how_long_it_will_still_take_at_its_own_speed_and_what_was_done(clock):
    work = Work("encoding", 1000, done=400, unit="passages")
    assert work.line() == "encoding: 400 of 1,000 passages, 40 %, for 0 s"
    clock.now += 10
    work.advance(100)
    assert work.left == 50, "what an earlier job has done says nothing about the speed"
    assert work.line() == "encoding: 500 of 1,000 passages, 50 %, 50 s left"
    work.advance(500)
    work.ended = True
    assert work.line() == "encoding: 1,000 passages in 10 s"

    work = Work("encoding", 1000, unit="passages")
    work.advance(10)
    work.ended = True
    assert work.line() == "encoding: 10 of 1,000 passages in 0 s"

    reading, loading = Work("reading a.jsonl", 14e9, unit="bytes"), Work("loading tiny")
    clock.now += 75
    reading.advance(7e9)
    assert reading.line() == "reading a.jsonl: 7,000 of 14,000 MB, 50 %, 1:15 left"
    assert loading.line() == "loading tiny, for 1:15"


def test_a_watcher_is_told_of_the_beginning_and_the_end_in_every_thread():
    told: list[tuple[str, float, bool]] = []
    with watched_by(lambda work: told.append((work.what, work.done, work.ended))):

        def work_in_thread() -> None:
            with working("indexing", 3) as work:
                work.advance(3)

        thread = threading.Thread(target=work_in_thread)
        thread.start()
        thread.join()
        with pytest.raises(ZeroDivisionError), working("failing"):
            raise ZeroDivisionError
    with working("unwatched"):
        pass
    assert told[0] == ("indexing", 0, False)
    assert told[-3:] == [("indexing", 3, True), ("failing", 0, False), ("failing", 0, True)]


def test_without_a_watcher_it_is_logged_every_half_minute(clock, caplog):
    with caplog.at_level(logging.WARNING), working("indexing", 1000, unit="passages") as work:
        for _ in range(100):
            clock.now += 1
            work.advance(10)
    assert [record.message for record in caplog.records] == [
        "indexing: 300 of 1,000 passages, 30 %, 1:10 left",
        "indexing: 600 of 1,000 passages, 60 %, 40 s left",
        "indexing: 900 of 1,000 passages, 90 %, 10 s left",
    ]


@pytest.mark.parametrize(("seconds", "text"), [(42.4, "42 s"), (185, "3:05"), (7800, "2:10:00"), (59.7, "1:00")])
def test_durations(seconds, text):
    assert duration(seconds) == text


def watched(clock: Any, seconds: int, live: bool, encoding="utf-8", ends: bool = True, lasting: bool = False) -> str:
    """What a display shows of work that counts one thing a second, ten of it done already, of a hundred."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    with WorkDisplay(stream, live=live, lasting=lasting) as display:
        work = Work("indexing \x1b[2J", 100, done=10, unit="passages")
        for _ in range(seconds):
            clock.now += 1
            work.advance(1)
            display.show(work)
        work.ended = ends
        display.show(work)
    stream.seek(0)
    return stream.read()


def test_a_pipe_gets_a_line_every_half_minute_and_one_at_the_end_and_nothing_of_what_is_quick(clock):
    assert watched(clock, 89, live=False).splitlines() == [
        r"indexing \x1b[2J: 40 of 100 passages, 40 %, 1:00 left",
        r"indexing \x1b[2J: 70 of 100 passages, 70 %, 30 s left",
        r"indexing \x1b[2J: 99 of 100 passages in 1:29",
    ]
    assert watched(clock, 29, live=False) == ""
    stream = io.StringIO()
    with WorkDisplay(stream, live=False):
        for number in range(4):
            with working(f"part {number}", 20) as work:
                for _ in range(20):
                    clock.now += 1
                    work.advance(1)
    assert re.findall("part .", stream.getvalue()) == ["part 1", "part 1", "part 3", "part 3"], "each ends with a line"


def test_a_pipe_hears_of_work_that_does_not_advance(clock, monkeypatch):
    monkeypatch.setattr(work_module, "_REMIND_SECONDS", 0.001)
    said = threading.Event()

    class Pipe(io.StringIO):
        def write(self, text: str) -> int:
            said.set()
            return super().write(text)

    with WorkDisplay(stream := Pipe(), live=False), working("merging"):
        clock.now += 31
        assert said.wait(30)
    assert stream.getvalue() == "merging, for 31 s\nmerging in 31 s\n"


@pytest.mark.parametrize("live", [True, False])
def test_work_leaves_a_line_where_it_is_asked_to(clock, live):
    assert "39 of 100 passages in 29 s\n" in watched(clock, 29, live=live, lasting=True)
    assert "in 29 s" not in watched(clock, 29, live=live)
    assert " in " not in watched(clock, 1, live=live, lasting=True), "not worth one"


@pytest.mark.parametrize(
    ("columns", "encoding", "pattern"),
    [
        (100, "utf-8", r"indexing \\x1b\[2J [━╸╺]{24} 20 s left 80 of 100 passages"),
        (100, "ascii", r"[-|/\\] indexing \\x1b\[2J [- ]{24} 20 s left 80 of 100 passages"),
        (40, "utf-8", r"indexing \\x1b\[2J 20 s left 80 %"),
    ],
)
def test_a_terminal_shows_a_bar_and_the_time_left_where_they_fit(clock, monkeypatch, columns, encoding, pattern):
    monkeypatch.setenv("COLUMNS", str(columns))
    screen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", watched(clock, 70, live=True, encoding=encoding, ends=False))
    assert re.search(pattern, screen), screen
    assert max(map(len, screen.split("\n"))) <= columns


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_right_after_the_first_is_its_echo_and_a_later_one_ends_at_once(monkeypatch, number):
    """`timeout` tells a process and its group, and `make` in between passes it on."""
    signal.signal(number, signal.SIG_DFL)  # `nohup` has them ignored
    moments, saved = iter((5.0, 5.1, 5.9, 6.1)), []
    monkeypatch.setattr("agent_r1_core.work.running.time", SimpleNamespace(monotonic=lambda: next(moments)))

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.sleep(60)
        finally:
            for _ in range(2):
                os.kill(os.getpid(), number)
                await asyncio.sleep(0.01)
                saved.append("a part")
            os.kill(os.getpid(), number)
            await asyncio.sleep(60)
            saved.append("all")

    with pytest.raises(KeyboardInterrupt):
        run_async(work())
    assert saved == ["a part", "a part"]
