"""Coroutines that are run from synchronous code, and told to end."""

from __future__ import annotations

import asyncio
import os
import signal
from types import SimpleNamespace

import pytest

from agent_r1_core.work.running import run_async, termination_interrupts


def test_a_second_sigterm_right_after_the_first_is_its_echo_and_a_later_one_ends_at_once(monkeypatch) -> None:
    """`timeout` tells a process and its group, and `make` in between passes it on."""
    moments, saved = iter((5.0, 5.1, 5.9, 6.1)), []
    monkeypatch.setattr("agent_r1_core.work.running.time", SimpleNamespace(monotonic=lambda: next(moments)))

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)
        finally:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.01)
                saved.append("a part")
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)
            saved.append("all")

    with termination_interrupts(), pytest.raises(KeyboardInterrupt):
        run_async(work())
    assert saved == ["a part", "a part"]
