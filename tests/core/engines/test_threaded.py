"""What every threaded engine does around its backend: order, cancellation, one error for all when it stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_r1_core import EngineBackend, EngineError, EngineLimits, EngineModel, Generation, Request, ThreadedEngine
from agent_r1_core.testing import make_request


class Counting(EngineBackend):
    """A request ends after as many steps as its budget; every step waits until the test allows it."""

    def __init__(self) -> None:
        self.requests: dict[int, Request] = {}
        self.left: dict[int, int] = {}
        self.log: list[Any] = []
        self.allowed = threading.Semaphore(0)
        self.stepping = threading.Event()
        self.failure: BaseException | None = None

    def open(self, model: EngineModel) -> EngineLimits:
        if model.folder == "missing":
            raise EngineError("there is no such folder; give another")
        return EngineLimits(vocabulary=100, positions=10)

    def check(self, request: Request) -> None:
        if request.ids == (13,):
            raise EngineError("13 can never run here; ask for something else")

    def add(self, key: int, request: Request) -> None:
        if request.ids == (7,):
            raise EngineError("7 is refused; ask for something else")
        self.requests[key], self.left[key] = request, request.sampling.max_new_tokens
        self.log.append(("add", request.ids[0]))

    def step(self) -> list[tuple[int, Generation | EngineError]]:
        self.stepping.set()
        self.allowed.acquire()
        if self.failure is not None:
            raise self.failure
        self.log.append(("step", sorted(self.requests[key].ids[0] for key in self.left)))
        self.left = {key: left - 1 for key, left in self.left.items()}
        ended = [key for key, left in self.left.items() if left == 0]
        return [(key, self._answer(self.requests[key], self.left.pop(key))) for key in ended]

    def _answer(self, request: Request, left: int) -> Generation:
        budget = request.sampling.max_new_tokens
        return Generation(request.ids * budget, (-1.0,) * budget, "length", 0)

    def abort(self, key: int) -> None:
        del self.left[key]
        self.log.append(("abort", self.requests[key].ids[0]))

    def load_weights(self, weights: Any, version: int) -> None:
        if not weights:
            raise EngineError("the weights do not fit; send others")
        self.log.append(("weights", version))

    def release(self, episode: str) -> None:
        self.log.append(("release", episode))

    def close(self) -> None:
        self.log.append("close")


class Held(ThreadedEngine):
    name = "held"

    def make_backend(self) -> EngineBackend:
        self.backend = Counting()
        return self.backend

    def allow(self, steps: int) -> None:
        self.backend.allowed.release(steps)

    async def ask(self, token: int, steps: int = 1) -> Generation:
        return await self.generate(make_request((token,), steps))

    async def in_a_step(self) -> None:
        """Wait until the thread is inside a step, which it cannot leave without permission."""
        assert await asyncio.to_thread(self.backend.stepping.wait, 60)


@asynccontextmanager
async def serving(deterministic: bool = False) -> AsyncIterator[Held]:
    engine = Held()
    await engine.start(EngineModel("folder", "float32", deterministic=deterministic))
    try:
        yield engine
    finally:
        engine.allow(100)
        await engine.close()


async def later(coroutine: Any) -> asyncio.Task[Any]:
    """The coroutine on its way: it has run to its first wait."""
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("deterministic", [False, True])
async def test_requests_join_between_steps_or_wait_their_turn(deterministic: bool) -> None:
    async with serving(deterministic) as engine:
        first = await later(engine.ask(1, 2))
        await engine.in_a_step()
        others = [await later(engine.generate_batch([make_request((2,), 1), make_request((3,), 1)]))]
        # What comes last is waited for: nobody waits for a release.
        others += [await later(engine.release("e")), await later(engine.load_weights({"w": None}, 5))]
        engine.allow(3)
        await asyncio.gather(first, *others)
        log = engine.backend.log
    arrivals: list[Any] = [("add", 2), ("add", 3)]
    calls: list[Any] = [("release", "e"), ("weights", 5)]
    if deterministic:
        assert log == [("add", 1), ("step", [1]), ("step", [1]), *arrivals, ("step", [2, 3]), *calls, "close"]
    else:
        assert log == [("add", 1), ("step", [1]), *arrivals, *calls, ("step", [1, 2, 3]), "close"]


@pytest.mark.parametrize("deterministic", [False, True])
async def test_a_cancelled_request_is_aborted_and_one_that_waits_is_never_added(deterministic: bool) -> None:
    async with serving(deterministic) as engine:
        running = await later(engine.generate_batch([make_request((1,), 3), make_request((2,), 3)]))
        await engine.in_a_step()
        waiting, kept = await later(engine.ask(3)), await later(engine.ask(4))
        for task in (running, waiting):
            task.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)
        engine.allow(2)
        await kept
        log = engine.backend.log
    assert log[:3] == [("add", 1), ("add", 2), ("step", [1, 2])]
    assert log[3:] == [("abort", 1), ("abort", 2), ("add", 4), ("step", [4]), "close"]


async def test_a_refusal_concerns_its_request_alone() -> None:
    async with serving() as engine:
        engine.allow(100)
        with pytest.raises(EngineError, match="7 is refused"):
            await engine.ask(7)
        with pytest.raises(EngineError, match="weights do not fit"):
            await engine.load_weights({}, 1)
        for wrong, sentence in (((13,), "can never run"), ((100,), "outside"), ((1,) * 10, "leaves no room")):
            with pytest.raises(EngineError, match=sentence):
                await engine.generate_batch([make_request((1,), 1), make_request(wrong, 1)])
        assert len((await engine.generate(make_request((1,) * 8, 5))).ids) == 8 * 2, "the budget exceeds positions"
        assert ("add", 1) in engine.backend.log


async def test_a_stop_fails_all_that_waits_or_runs_with_one_error() -> None:
    async with serving() as engine:
        running = await later(engine.generate_batch([make_request((1,), 3), make_request((2,), 3)]))
        await engine.in_a_step()
        waiting = [await later(engine.ask(3)), await later(engine.load_weights({"w": None}, 1))]
        engine.backend.failure = MemoryError("no room for 7 GiB")
        engine.allow(1)
        outcomes = await asyncio.gather(running, *waiting, engine.ask(4), return_exceptions=True)
        assert len({id(outcome) for outcome in outcomes}) == 1
        assert isinstance(outcomes[0], EngineError)
        assert str(outcomes[0]).startswith("the held engine stopped: MemoryError: no room for 7 GiB; ")
        assert isinstance(outcomes[0].__cause__, MemoryError)
        with pytest.raises(EngineError, match="no room for 7 GiB"):
            await engine.sleep()
        await engine.release("one")


async def test_closing_fails_what_is_in_flight_and_the_engine_may_start_again() -> None:
    engine = Held()
    with pytest.raises(EngineError, match="no such folder"):
        await engine.start(EngineModel("missing", "float32"))
    with pytest.raises(EngineError, match=r"the held engine is not running; await start\(model\) first"):
        await engine.ask(1)
    assert engine.backend.log == []
    await engine.start(EngineModel("folder", "float32"))
    running, worker = await later(engine.ask(1, 3)), engine._worker
    await engine.in_a_step()
    closing = await later(engine.close())
    while worker is not None and not worker._closing:
        await asyncio.sleep(0)
    engine.allow(1)
    await closing
    with pytest.raises(EngineError, match="the held engine is closed"):
        await running
    assert engine.backend.log[-1] == "close"
    await engine.close()
    await engine.start(EngineModel("folder", "float32"))
    engine.allow(1)
    assert (await engine.ask(5)).ids == (5,)
    await engine.close()
