"""Options that every engine, algorithm and optimiser has are refused where they could only hang or divide by zero."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from agent_r1_core.contracts.algorithm import AlgorithmConfig
from agent_r1_core.contracts.engine import EngineConfig, Sampling
from agent_r1_core.contracts.training import TrainingConfig


@pytest.mark.parametrize(
    ("config", "option", "value"),
    [
        *((EngineConfig, "max_episodes", 0), (TrainingConfig, "betas", (0.9, 1.0)), (Sampling, "top_k", -1)),
        *((Sampling, "max_new_tokens", 0), (Sampling, "temperature", -1.0), (Sampling, "top_p", 0.0)),
        *((AlgorithmConfig, "horizon", 0), (AlgorithmConfig, "filter_share", 0.0), (AlgorithmConfig, "filter_p", 1.1)),
    ],
)
def test_a_value_that_cannot_work_is_refused(config, option, value):
    with pytest.raises(ValidationError, match=option):
        config(**{option: value})
