"""Time that a test sets."""

from __future__ import annotations

import pytest

from agent_r1_core.work import display, work


class Clock:
    """Stands where it is until a test moves it."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(work, "time", clock)
    monkeypatch.setattr(display, "time", clock)
    return clock
