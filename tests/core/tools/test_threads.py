"""Threads for calls that may hang."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agent_r1_core.tools import threads
from agent_r1_core.tools.threads import CallTimeout, ThreadPool


def test_a_lane_keeps_its_thread_until_a_call_hangs():
    release = threading.Event()

    async def work() -> list[int]:
        pool = ThreadPool(1)
        lane = pool.lane()
        idents = [await lane.run(threading.get_ident) for _ in range(2)]
        with pytest.raises(CallTimeout):
            await lane.run(release.wait, timeout=0.02)
        idents.append(await lane.run(threading.get_ident))
        lane.release()
        assert pool.hung == 1
        pool.close()
        return idents

    first, second, third = asyncio.run(work())
    release.set()
    assert first == second != third


def test_a_narrow_pool_waits_without_counting_the_wait():
    """An hour goes by on the loop's clock while the only thread is taken."""
    release = threading.Event()

    async def work() -> int:
        pool, loop = ThreadPool(1), asyncio.get_running_loop()
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


def test_a_cancelled_call_leaves_the_pool_usable():
    begun, release = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait()

    async def work() -> str:
        pool = ThreadPool(1)
        task = asyncio.create_task(pool.run(hold))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await pool.run(lambda: "still here", timeout=60)

    assert asyncio.run(work()) == "still here"
    release.set()


def test_a_cancelled_call_that_never_ends_costs_its_lane_the_grace_only(monkeypatch):
    monkeypatch.setattr(threads, "GRACE_SECONDS", 0.01)
    begun, release = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait()

    async def work() -> list[str]:
        lane = ThreadPool(1).lane()
        task = asyncio.create_task(lane.run(hold))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.wait({task})
        return [await asyncio.wait_for(lane.run(lambda name=name: name), timeout=60) for name in ("next", "last")]

    assert asyncio.run(work()) == ["next", "last"]
    release.set()
