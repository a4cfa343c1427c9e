"""Crew: the processes of rollout workers, which live as long as the site of a run, whoever lets them play."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent_r1_ray.jobs import SILENCE
from agent_r1_ray.remote import Place, answer, end

if TYPE_CHECKING:
    from ray.actor import ActorHandle


class Crew:
    """Keeps workers that are idle, by the number of their seat, for the rollouts of the next learner."""

    def __init__(self) -> None:
        self._idle: dict[int, tuple[ActorHandle[Any], Place]] = {}

    def keep(self, seat: int, actor: ActorHandle[Any], place: Place) -> None:
        """Nobody uses this worker any more; it plays nothing, or is still starting."""
        self._idle[seat] = actor, place

    def take(self, seat: int) -> tuple[ActorHandle[Any], Place] | None:
        """The worker of a seat, which may have died meanwhile; None: there is none."""
        return self._idle.pop(seat, None)

    async def close(self) -> None:
        """End all that are idle."""
        idle, self._idle = self._idle, {}
        await asyncio.gather(*(_close(*one) for one in idle.values()), return_exceptions=True)


async def _close(actor: ActorHandle[Any], place: Place) -> None:
    try:
        await asyncio.wait_for(answer(actor.close.remote()), SILENCE)
    finally:
        end(actor, place)
