"""Requests that the environment calls off: a bad environment costs its own episode."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from agent_r1_core import Action, EndStatus, Observation, Sampling, Step, Task, ToolEnv
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutSettings
from agent_r1_core.testing import ScriptedPolicy, tiny_tokenizer


class Asks(ToolEnv):
    """Ends with the first action."""

    async def reset(self, task: Task) -> Observation:
        return Observation([{"role": "user", "content": "Hi"}])

    async def step(self, action: Action) -> Step:
        return Step(terminated=True, answer=action.text)


class Refuses(Asks):
    async def abandoned(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await asyncio.sleep(3600)


class Fails(Asks):
    async def abandoned(self) -> None:
        raise SystemExit("no")


@pytest.mark.parametrize(("env", "status"), [(Refuses, EndStatus.TERMINATED), (Fails, EndStatus.FAILED)])
def test_a_bad_environment_costs_its_own_episode(env: Any, status: EndStatus) -> None:
    class Slow(ScriptedPolicy):
        async def generate(self, request: Any) -> Any:
            await asyncio.sleep(0.05 if env is Refuses else 60)
            return await super().generate(request)

    settings = RolloutSettings(lambda services: env(services=services), sampling=Sampling(), max_retries=0)
    collector = Collector(Slow(["Done"]), ChatTokenizer(tiny_tokenizer()), settings)
    try:
        result = asyncio.run(asyncio.wait_for(collector.collect(RolloutRequest([Task("q", "?")])), 30))
    finally:
        collector.close()
    assert [one.status for one in (*result.trajectories, *result.dropped)] == [status]
