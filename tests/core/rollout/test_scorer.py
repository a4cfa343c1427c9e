from __future__ import annotations

import pytest

from agent_r1_core.contracts.reward import RewardFn
from agent_r1_core.errors import ConfigError
from agent_r1_core.rollout import WeightedReward
from agent_r1_core.rollout.scoring import Scorer
from agent_r1_core.rollout.threads import ThreadPool


@pytest.mark.parametrize("name", ["mean", "env"])
def test_a_reward_does_not_take_the_name_of_another_metric(name: str) -> None:
    reward = RewardFn()
    reward.name = name
    with pytest.raises(ConfigError, match=f"a reward is named '{name}'.*rename it"):
        Scorer([WeightedReward(reward)], ThreadPool(1), 1.0)
