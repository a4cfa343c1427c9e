"""Long work: told to whoever watches, in whichever thread it is done; else logged now and then."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from agent_r1_core.work import Work, duration, watched_by, working


def test_work_knows_how_long_it_will_still_take_at_its_own_speed(clock: Any) -> None:
    work = Work("encoding", 1000, done=400, unit="passages")
    assert work.line() == "encoding: 400 of 1,000 passages, 40 %, for 0 s"
    clock.now += 10
    work.advance(100)
    assert work.left == 50, "what an earlier job has done says nothing about the speed"
    assert work.line() == "encoding: 500 of 1,000 passages, 50 %, 50 s left"
    work.advance(500)
    work.ended = True
    assert work.line() == "encoding: 1,000 passages in 10 s"


def test_work_that_was_cut_short_does_not_say_that_all_is_done(clock: Any) -> None:
    work = Work("encoding", 1000, unit="passages")
    work.advance(10)
    work.ended = True
    assert work.line() == "encoding: 10 of 1,000 passages in 0 s"


def test_bytes_are_megabytes_and_what_has_no_total_says_how_long_it_goes_on(clock: Any) -> None:
    reading, loading = Work("reading a.jsonl", 14e9, unit="bytes"), Work("loading tiny")
    clock.now += 75
    reading.advance(7e9)
    assert reading.line() == "reading a.jsonl: 7,000 of 14,000 MB, 50 %, 1:15 left"
    assert loading.line() == "loading tiny, for 1:15"


def test_a_watcher_is_told_of_the_beginning_and_the_end_in_every_thread() -> None:
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


def test_without_a_watcher_it_is_logged_every_half_minute(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
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
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
