"""Threads for calls that may hang."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agent_r1_core.tools import threads
from agent_r1_core.tools.threads import CallTimeout, Lane, ThreadPool


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


def test_the_pool_serves_one_loop_after_another():
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


async def test_a_cancelled_call_leaves_the_pool_usable():
    held, pool = Held(), ThreadPool(1)
    await held.cancelled_in(pool)
    assert await pool.run(lambda: "still here", timeout=60) == "still here"
    held.release.set()


async def test_a_cancelled_call_that_never_ends_costs_its_lane_the_grace_only(monkeypatch):
    monkeypatch.setattr(threads, "GRACE_SECONDS", 0.01)
    held, lane = Held(), ThreadPool(1).lane()
    await held.cancelled_in(lane)
    for name in ("next", "last"):
        assert await asyncio.wait_for(lane.run(lambda name=name: name), timeout=60) == name
    held.release.set()
