"""Measures the recipe's scores; an episode lacks one that raises, hangs or leaves its bounds there (LAW 9)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from agent_r1_core.contracts.score import DeclaredScore, ScoreFn, bounds_problem
from agent_r1_core.rollout.scoring import TooSlow, call_score, number
from agent_r1_core.tools.plain import Unfit
from agent_r1_core.tools.threads import ThreadPool, TooManyLeft
from agent_r1_core.trajectory import EndStatus, Trajectory

AT_ONCE = 8
"""Episodes that a score is asked about at once."""
MOST_SLOW = 16
"""A score that took too long for so many episodes, one after another, is asked no more in this evaluation."""


class Measurer:
    """Measures the scores of a run, one after the other; each has threads of its own, so that none waits for another's
    hung calls."""

    def __init__(self, scores: Mapping[ScoreFn, float] = MappingProxyType({})) -> None:
        """Measure these scores; each has so many seconds for an episode."""
        self._timeouts = dict(scores)
        self._threads = {score: ThreadPool(AT_ONCE) for score in scores}

    @property
    def declared(self) -> Mapping[str, DeclaredScore]:
        """What the scores mean, by name."""
        return {score.name: score.declared for score in self._timeouts}

    async def measure(self, trajectories: Sequence[Trajectory]) -> tuple[list[dict[str, float]], list[str]]:
        """The scores of each episode by name, none of one that failed; and a sentence for each score that episodes
        lack by its own fault."""
        measured: list[dict[str, float]] = [{} for _ in trajectories]
        asked = [place for place, one in enumerate(trajectories) if one.status != EndStatus.FAILED]
        faults: list[str] = []
        for score in self._timeouts:
            values = await self._values(score, [trajectories[place] for place in asked])
            broken = [(place, value) for place, value in zip(asked, values, strict=True) if isinstance(value, str)]
            if broken:
                place, why = broken[0]
                lack = f"{len(broken)} of {len(asked)} episodes lack{'s' if len(broken) == 1 else ''} the score"
                faults.append(f"{lack} {score.name}, first {trajectories[place].id}: {why}")
            for place, value in zip(asked, values, strict=True):
                if isinstance(value, float):
                    measured[place][score.name] = value
        return measured, faults

    def close(self) -> None:
        """Let idle threads end."""
        for threads in self._threads.values():
            threads.close()

    async def _values(self, score: ScoreFn, trajectories: Sequence[Trajectory]) -> list[float | str | None]:
        """The score of each episode; a text says why there is none."""
        slots, slow, given_up = asyncio.Semaphore(AT_ONCE), 0, ""

        async def value(trajectory: Trajectory) -> float | str | None:
            nonlocal slow, given_up
            async with slots:
                if slow >= MOST_SLOW or given_up:
                    return given_up or f"it took too long for {slow} episodes before"
                try:
                    found: float | str | None = await self._value(score, trajectory)
                except TooSlow as error:
                    slow += 1
                    return f"it {error}"
                except Unfit as unfit:
                    found = f"it {unfit}"
                except TooManyLeft as error:
                    given_up = str(error)
                    return given_up
                slow = 0
                return found

        return await asyncio.gather(*map(value, trajectories))

    async def _value(self, score: ScoreFn, trajectory: Trajectory) -> float | None:
        """The score of an episode; raises Unfit if it gives none within its time and bounds."""
        function, name, timeout = partial(score.score, trajectory), f"score {score.name}", self._timeouts[score]
        threads = self._threads[score]
        value: float | None = await call_score(threads, function, timeout, name=name, convert=_number_or_none)
        problem = None if value is None else bounds_problem(value, score.declared.bounds)
        if problem is not None:
            raise Unfit(problem)
        return value


def _number_or_none(value: Any) -> float | None:
    return None if value is None else number(value)
