from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_r1_core.contracts.reward import RewardFn
from agent_r1_core.errors import ConfigError, EpisodeError
from agent_r1_core.rollout import WeightedReward
from agent_r1_core.rollout.scoring import Scorer
from agent_r1_core.testing import make_trajectory
from agent_r1_core.tools.threads import ThreadPool


@pytest.mark.parametrize("name", ["mean", "env"])
def test_a_reward_does_not_take_the_name_of_another_metric(name: str) -> None:
    reward = RewardFn()
    reward.name = name
    with pytest.raises(ConfigError, match=f"a reward is named '{name}'.*rename it"):
        Scorer([WeightedReward(reward)], ThreadPool(1))


def test_every_reward_has_a_time_of_its_own() -> None:
    class Judge(RewardFn):
        name = "judge"

        async def score(self, trajectory: Any) -> float:
            await asyncio.sleep(3600)
            return 1.0

    scorer = Scorer([WeightedReward(Judge(), timeout=0.01)], ThreadPool(1))
    with pytest.raises(EpisodeError, match=r"reward judge .* took longer than 0.01 seconds; .* raise its timeout"):
        asyncio.run(scorer.score_episode(make_trajectory()))
