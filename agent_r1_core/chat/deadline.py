"""Runs Python code within a time limit, in the thread that asks for it.

The code is stopped by an exception that another thread raises in it, so a single long operation in C ends first.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_CHECK_SECONDS = 0.25
"""Between two looks at the calls."""


class _TimeUp(BaseException):
    """Raised in code whose time is up; no `except Exception` holds it."""


class _Watch:
    """Looks after the calls that run, from a thread of its own.

    It counts its looks instead of reading a clock, so that the time of a stopped process does not count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pause = threading.Event()
        """Never set: waiting for it takes its time, whatever an author did to `time.sleep`."""
        self._looks_left: dict[int, int] = {}
        """By thread; one without any is stopped."""
        self._stopped: set[int] = set()
        self._thread: threading.Thread | None = None

    def begin(self, seconds: float) -> None:
        """Limit what this thread does from now on."""
        with self._lock:
            self._looks_left[threading.get_ident()] = math.ceil(seconds / _CHECK_SECONDS)
            if self._thread is None or not self._thread.is_alive():  # as in a forked process
                self._thread = threading.Thread(target=self._look, name="agent-r1-deadline", daemon=True)
                self._thread.start()

    def end(self) -> None:
        """Lift the limit; nothing is raised in this thread after this."""
        thread = threading.get_ident()
        with self._lock:
            self._looks_left.pop(thread, None)
            if thread in self._stopped:
                self._stopped.discard(thread)
                _raise_in(thread, None)

    def _look(self) -> None:
        while True:
            self._pause.wait(_CHECK_SECONDS)
            with self._lock:
                for thread in self._looks_left:
                    self._looks_left[thread] -= 1
                    if self._looks_left[thread] < 0:
                        self._stopped.add(thread)
                        _raise_in(thread, _TimeUp)


_WATCH = _Watch()


def within(seconds: float, function: Callable[[], T]) -> T:
    """Call the function.

    Raises:
        TimeoutError: it did not end within `seconds`, and was stopped.
    """
    try:
        _WATCH.begin(seconds)
        try:
            return function()
        finally:
            while not _lifted():
                pass
    except _TimeUp:
        raise TimeoutError from None


def _lifted() -> bool:
    """Lift the limit; False if the time was up right then: the limit may still hold."""
    try:
        _WATCH.end()
    except _TimeUp:
        return False
    return True


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Have a thread raise an exception soon; None: take back one that it has not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error) if error else None)
