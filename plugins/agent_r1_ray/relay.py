"""Relay: a process on the controller's machine that calls many rollout workers for it, and has what they play stored.

A call of an actor costs its caller about a millisecond, and the bytes of a report more. So the controller sends the
calls of a moment together, and hears of the answers of a moment together; the episodes in them go to Ray's store. The
controller hears of no episode that is not on its machine: what is lost with another one is played again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ray
from numpy.typing import NDArray

from agent_r1_ray.jobs import SILENCE, Report, WorkerLost
from agent_r1_ray.remote import Place, answer, end, here, on_this_machine, placed
from agent_r1_ray.stored import Batch, Stored, opened

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from agent_r1_ray.spec import WorkerSpec

WORKERS = 256
"""Rollout workers of a relay; half as many have none."""
_TOGETHER = 0.005
"""Seconds for which calls wait for others."""
_GATHER, _SOON = 1.0, 0.25
"""Seconds for which reports wait for others, and those that are urgent; other answers wait for nothing."""
_IDLE = 5.0
"""Seconds after which a relay answers that there is no news."""

Call = Callable[..., Awaitable[Any]]
"""Calls a method of an actor: the actor, the method's name, its arguments. It raises WorkerLost if the actor is gone,
and otherwise what the method raised."""
Request = tuple[int, Any, str, Sequence[Any]]
"""The number of a call, the actor, the method's name, and its arguments."""
Answer = tuple[int, Any, bool]
"""The number of a call, its result or error, and whether it is an error."""


async def direct(actor: ActorHandle[Any], method: str, *arguments: Any) -> Any:
    """Call an actor from this process."""
    return await answer(getattr(actor, method).remote(*arguments))


class RelayActor:
    """The process."""

    def __init__(self, spec: WorkerSpec) -> None:
        spec.load_plugin_files()  # tasks and episodes may hold values of their classes
        self._calls: set[asyncio.Task[None]] = set()
        self._answers: list[Answer] = []
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()

    async def place(self) -> tuple[str, str, int]:
        """Where it runs."""
        return here()

    async def call(self, calls: Sequence[Request]) -> None:
        """Begin calls."""
        for number, actor, method, arguments in calls:
            task = asyncio.create_task(self._call(number, actor, method, arguments))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def news(self) -> tuple[tuple[list[Answer], list[tuple[Any, ...]]], NDArray[Any]]:
        """The answers since the last news, some seconds after it at most; what to tell of the episodes in them; and
        these."""
        try:
            await asyncio.wait_for(self._news.wait(), _IDLE)
            await asyncio.wait_for(self._urgent.wait(), _GATHER)
        except TimeoutError:
            pass
        self._news.clear()
        self._urgent.clear()
        answers, self._answers = self._answers, []
        stored = Stored()
        told = [(number, _told(found, stored), failed) for number, found, failed in answers]
        return (told, stored.columns()), stored.batch()

    async def _call(self, number: int, actor: ActorHandle[Any], method: str, arguments: Sequence[Any]) -> None:
        found, failed = None, False
        try:
            found = await direct(actor, method, *arguments)
        except Exception as error:
            found, failed = error, True
        self._answers.append((number, found, failed))
        self._news.set()
        if not isinstance(found, Report):
            self._urgent.set()
        elif found.urgent:
            asyncio.get_running_loop().call_later(_SOON, self._urgent.set)


def _told(found: Any, stored: Stored) -> Any:
    """An answer, a report with rows in place of its episodes."""
    if not isinstance(found, Report):
        return found
    finished: list[Any] = [(job, index, stored.add(one)) for job, index, one in found.finished]
    return replace(found, finished=finished)


class Relay:
    """The controller's side of a relay, which is started with the first call, and again when it was lost.

    Args:
        spec: Ray's reference to the WorkerSpec of the blueprint.
    """

    def __init__(self, spec: Any) -> None:
        self._spec = spec
        self._actor: ActorHandle[Any] | None = None
        self._place: Place | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._outbox: list[Request] = []
        self._listening: asyncio.Task[None] | None = None

    def call(self, actor: ActorHandle[Any], method: str, *arguments: Any) -> Awaitable[Any]:
        """Let the relay call an actor."""
        loop = asyncio.get_running_loop()
        answered, number = loop.create_future(), next(self._numbers)
        self._waiting[number] = answered
        if not self._outbox:
            loop.call_later(_TOGETHER, self._send)
        self._outbox.append((number, actor, method, arguments))
        return answered

    def close(self) -> None:
        """End the process."""
        if self._listening is not None:
            self._listening.cancel()
        self._lose("the rollout workers were closed")

    def _send(self) -> None:
        sent, self._outbox = self._outbox, []
        if not sent:
            return
        if self._actor is None:
            remote: Any = ray.remote(RelayActor)
            options = {"num_cpus": 0, "max_concurrency": 4, "scheduling_strategy": on_this_machine()}
            self._actor = remote.options(**options).remote(self._spec)
            self._listening = asyncio.ensure_future(self._listen(self._actor))
        sending = asyncio.ensure_future(self._pass_on(self._actor, sent))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _pass_on(self, actor: ActorHandle[Any], sent: Sequence[Request]) -> None:
        try:
            await answer(actor.call.remote(sent))
        except WorkerLost:  # listening finds it, too
            return
        except Exception as error:  # what was sent cannot be pickled, or not be read there
            for number, *_ in sent:
                waiting = self._waiting.pop(number, None)
                if waiting is not None and not waiting.done():
                    waiting.set_exception(error)

    async def _listen(self, actor: ActorHandle[Any]) -> None:
        ask: Any = actor.news.options(num_returns=2).remote
        try:
            self._place = await placed(actor)
            while True:
                news, reference = ask()
                answers, columns = await asyncio.wait_for(answer(news), SILENCE)
                self._hear(answers, Batch(reference, columns))
        except TimeoutError:
            self._lose(f"the process that calls it has not answered for {SILENCE:g} seconds")
        except Exception as error:
            self._lose(f"the process that calls it is lost: {error}")

    def _hear(self, answers: Sequence[Answer], batch: Batch) -> None:
        for number, found, failed in answers:
            waiting = self._waiting.pop(number, None)
            if waiting is None or waiting.done():  # nobody waits any more
                continue
            if failed:
                waiting.set_exception(found)
            elif isinstance(found, Report):
                finished = [(job, index, opened(one, batch)) for job, index, one in found.finished]
                waiting.set_result(replace(found, finished=finished))
            else:
                waiting.set_result(found)

    def _lose(self, reason: str) -> None:
        """Whoever waits for the relay has lost the worker."""
        end(self._actor, self._place)
        self._actor, self._place, self._outbox = None, None, []
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            if not one.done():
                one.set_exception(WorkerLost(reason))
