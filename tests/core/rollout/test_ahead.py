"""Observations that an environment announces: generated at once, recorded in their turn, whichever ends first; and
requests that it calls off."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from agent_r1_core import Action, EnvConfig, Observation, RequestOptions, Sampling, Step, Task, ToolEnv, Trajectory
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutSettings
from agent_r1_core.testing import ScriptedPolicy, tiny_tokenizer

ASKED = [None, None, None, 0, 0, 1]
"""Of each question, the action that it continues. The first three are known from the start, the others once those are
answered."""
CONFIG = EnvConfig(max_turns=6)
KNOWN = [3, 3, 3, 6, 6, 6]
"""How many questions are known before each action."""


class Asks(ToolEnv):
    """Asks the questions in their order."""

    owns_context = True
    last = len(ASKED)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._answered, self._announced = 0, 1

    def _question(self, number: int) -> Observation:
        continues = ASKED[number]
        return Observation(
            [{"role": "user", "content": f"Question {number}?"}],
            new_context=continues is None,
            continues=continues,
            request=RequestOptions(number=number),
        )

    async def reset(self, task: Task) -> Observation:
        return self._question(0)

    async def step(self, action: Action) -> Step:
        self._answered += 1
        self._announced = max(self._announced, self._answered + 1)
        over = self._answered == self.last
        return Step(terminated=True) if over else Step(self._question(self._answered))

    async def ahead(self) -> Observation:
        if self._announced == KNOWN[self._answered]:
            await asyncio.Event().wait()
        self._announced += 1
        return self._question(self._announced - 1)


class EndsEarly(Asks):
    last = 1


class Refuses(EndsEarly):
    """Does not stop asking whether a request is called off."""

    async def abandoned(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await asyncio.sleep(3600)


class Fails(EndsEarly):
    async def abandoned(self) -> None:
        raise SystemExit("no")


class Slow(ScriptedPolicy):
    """Takes seconds for every request."""

    def __init__(self, seconds: float) -> None:
        super().__init__(["Hi"])
        self._seconds = seconds

    async def generate(self, request: Any) -> Any:
        await asyncio.sleep(self._seconds)
        return await super().generate(request)


class Backwards(ScriptedPolicy):
    """Waits until three requests are there, and then answers the last one first."""

    def __init__(self) -> None:
        super().__init__(lambda cue: f"I say {cue.request.seed % 9973}")
        self._waiting: list[asyncio.Event] = []

    async def generate(self, request: Any) -> Any:
        turn = asyncio.Event()
        self._waiting.append(turn)
        if len(self._waiting) == 3:
            self._waiting.pop().set()
        await turn.wait()
        generation = await super().generate(request)
        await asyncio.sleep(0)
        if self._waiting:
            self._waiting.pop().set()
        return generation


def played(engine: ScriptedPolicy, env: type[ToolEnv] = Asks, **settings: Any) -> Trajectory:
    chosen = RolloutSettings(lambda services: env(CONFIG, services), sampling=Sampling(), max_retries=0, **settings)
    collector = Collector(engine, ChatTokenizer(tiny_tokenizer()), chosen)
    try:
        result = asyncio.run(asyncio.wait_for(collector.collect(RolloutRequest([Task("q", "?")])), 30))
    finally:
        collector.close()
    assert not result.dropped, result.dropped[0].reason
    return result.trajectories[0]


def test_a_trajectory_is_the_same_whichever_generation_ends_first_and_what_was_begun_for_nothing_is_cancelled():
    engine, alone = Backwards(), ScriptedPolicy(lambda cue: f"I say {cue.request.seed % 9973}")
    together, one_by_one = played(engine), played(alone, deterministic=True)
    assert [request.ids for request in engine.requests] != [request.ids for request in alone.requests]
    assert sorted(request.ids for request in engine.requests) == sorted(request.ids for request in alone.requests)
    assert together.segments == one_by_one.segments
    assert [turn.segment for turn in together.turns] == [0, 1, 2, 0, 3, 1]
    places = [[(turn.text, turn.start, turn.stop) for turn in one.turns] for one in (together, one_by_one)]
    assert places[0] == places[1]

    class First(ScriptedPolicy):
        begun = cancelled = 0

        async def generate(self, request: Any) -> Any:
            self.begun += 1
            if self.begun == 1:
                while self.begun < 3:
                    await asyncio.sleep(0)
                return await super().generate(request)
            try:
                return await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise

    engine = First(["Hi"])
    trajectory = played(engine, EndsEarly)
    assert len(trajectory.turns) == 1
    assert engine.cancelled == 2


@pytest.mark.parametrize("wrong", ["Hi", Observation([{"role": "nobody", "content": "Hi"}])])
def test_a_wrong_announcement_fails_its_episode(wrong):
    class Announces(Asks):
        async def ahead(self) -> Observation:
            return wrong

    with pytest.raises(AssertionError, match=r"ahead (returned str|observed a message of the role)"):
        played(Slow(60), Announces)


def test_an_environment_that_calls_requests_off_badly_costs_its_own_episode(monkeypatch):
    monkeypatch.setattr("agent_r1_core.tools.calling.GRACE_SECONDS", 0.1)
    assert len(played(Slow(0.05), Refuses).turns) == 1
    with pytest.raises(AssertionError, match="SystemExit"):
        played(Slow(60), Fails)
