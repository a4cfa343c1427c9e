"""RolloutSettings: everything that a Collector needs besides the engine and the tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent_r1_core.contracts.engine import EngineConfig
from agent_r1_core.contracts.env import EnvServices, ToolEnv
from agent_r1_core.contracts.reward import SCORE_TIMEOUT, RewardFn
from agent_r1_core.contracts.sampling import Sampling
from agent_r1_core.contracts.tool_format import ToolFormat
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.rollout.tool_runner import ToolRunner


@dataclass(frozen=True)
class WeightedReward:
    """A reward, the factor of its score, and its time-out."""

    reward: RewardFn
    weight: float = 1.0
    timeout: float = SCORE_TIMEOUT
    """Seconds for one score."""


@dataclass(frozen=True)
class RolloutSettings:
    """How episodes are played."""

    make_env: Callable[[EnvServices], ToolEnv]
    """Makes the environment of one episode; cheap."""
    tools: ToolRunner | None = None
    """Already started; None: there are no tools."""
    tool_format: ToolFormat | None = None
    rewards: Sequence[WeightedReward] = ()
    max_episodes: int = EngineConfig().max_episodes
    """Episodes in flight at once."""
    sampling: Sampling = field(default_factory=Sampling)
    max_retries: int = TrainingConfig().max_retries
    """How often a failed episode is retried before it is dropped."""
    seed: int = 0
    deterministic: bool = False
    """Play episodes in rounds, in a fixed order (LAW 11)."""
    model: str = ""
    """The model's name in errors of the drift guard."""
