"""Ahead: generations that begin before their turn, since the environment knows already what it will show.

Actions are taken one after the other, in the order in which the environment shows its observations, so that a
trajectory does not depend on which generation ends first. Only their generations overlap: what `ToolEnv.ahead`
announces is asked of the engine at once, and its generation is used where the very same request comes up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from agent_r1_core.contracts.engine import Generation, Request
from agent_r1_core.contracts.env import Observation
from agent_r1_core.rollout.world import World


class Ahead:
    """The generations of one episode."""

    def __init__(self, world: World, request_for: Callable[[Observation], Awaitable[Request | None]]) -> None:
        """`request_for` says which request an announced observation will become; None: that is not known."""
        self._world = world
        self._request_for = request_for
        self._begun: dict[Request, asyncio.Future[Generation]] = {}

    async def generation(
        self, request: Request, generate: Callable[[Request], Coroutine[Any, Any, Generation]]
    ) -> Generation | None:
        """The generation of the request whose turn it is; None where the environment calls it off before, which cancels
        it. Those that are announced meanwhile begin."""
        if self._world.only_answers:
            return await generate(request)
        generating = self._begun.pop(request, None) or asyncio.ensure_future(generate(request))
        leaving = asyncio.ensure_future(self._world.abandoned())
        announced = asyncio.ensure_future(self._world.ahead())
        try:
            while True:
                waiting: list[asyncio.Future[Any]] = [generating, leaving, announced]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if generating.done() or leaving.done():
                    return generating.result() if generating.done() else leaving.result()
                following = await self._request_for(announced.result())
                if following is not None and following not in self._begun:
                    self._begun[following] = asyncio.ensure_future(generate(following))
                announced = asyncio.ensure_future(self._world.ahead())
        finally:
            await _cancel((generating, leaving, announced))

    async def close(self) -> None:
        """Cancel what has begun and whose turn did not come."""
        begun, self._begun = self._begun, {}
        await _cancel(begun.values())


async def _cancel(tasks: Iterable[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
