"""The texts of errors, whatever an author's exception does when it is printed."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import pytest

from agent_r1_core.errors import EpisodeError, NotOpened, ToolError, describe_error, first_line, message_of, plain_error


def wordless(raised: type[BaseException]) -> Exception:
    """An exception whose text raises."""

    def text(self: Any) -> str:
        raise raised

    return type("Wordless", (Exception,), {"__str__": text})("kept")


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_a_text_that_raises_is_empty(raised):
    assert message_of(wordless(raised)) == ""
    assert describe_error(wordless(raised)) == "Wordless"
    assert describe_error(plain_error(wordless(raised))) == "Wordless"
    assert first_line(wordless(raised)) == "Wordless"


def test_an_interruption_by_the_user_is_none_of_the_text():
    """The text waits for ever, and the user does not."""
    released = threading.Event()

    class Slow(Exception):
        def __str__(self) -> str:
            signal.raise_signal(signal.SIGINT)
            released.wait()
            return ""

    try:
        with pytest.raises(KeyboardInterrupt):
            message_of(Slow())
    finally:
        released.set()


class Sly(ToolError):
    """A tool's error that has another text each time."""

    times = 0

    def __str__(self) -> str:
        self.times += 1
        return f"text {self.times}"


@pytest.mark.parametrize(
    "error",
    [
        *(ValueError("no page"), KeyError("page"), EpisodeError("broke")),
        *(FileNotFoundError(2, "no file", "a.txt"), NotOpened(22, "it is a pipe", "a.txt")),
    ],
)
def test_an_error_that_prints_without_an_authors_code_stays(error):
    assert plain_error(error) is error
    assert message_of(error) == str(error)


@pytest.mark.parametrize("error", [ValueError(Sly()), FileNotFoundError(2, "no file", Sly()), wordless(ValueError)])
def test_another_error_prints_as_it_does_and_runs_nothing(error):
    stays = plain_error(error)
    assert describe_error(stays) == describe_error(stays)
    assert describe_error(stays).startswith(type(error).__name__)
    assert all(type(argument) is str for argument in stays.args)


def test_our_own_errors_stay_what_they_are_and_a_sentence_quotes_the_first_line_without_its_stop():
    stays = plain_error(Sly())
    assert type(stays) is ToolError
    assert str(stays) == str(stays) == "text 1"
    assert first_line(ValueError("\nline 1 is no key.\n  in file x")) == "line 1 is no key"
