"""RolloutSettings: everything that a Collector needs besides the engine and the tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_r1_core.contracts.context import ContextStrategy
from agent_r1_core.contracts.engine import EngineConfig, Sampling
from agent_r1_core.contracts.env import EnvConfig, EnvServices, ToolEnv
from agent_r1_core.contracts.reward import SCORE_TIMEOUT, RewardFn
from agent_r1_core.contracts.tool_format import ToolFormat
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.rollout.examples import Examples
from agent_r1_core.tools.tool_runner import ToolRunner


@dataclass(frozen=True)
class WeightedReward:
    """A reward, the factor of its score, its time-out, and the most that it may give an episode."""

    reward: RewardFn
    weight: float = 1.0
    timeout: float = SCORE_TIMEOUT
    """Seconds for one score."""
    cap: float | None = None
    """Of a process reward, in addition to the one that it declares."""

    @property
    def lowest_cap(self) -> float | None:
        """The cap that holds; None: there is none."""
        return min((cap for cap in (self.cap, self.reward.cap) if cap is not None), default=None)


@dataclass(frozen=True)
class ToolReward:
    """What the rewards that a tool gives count."""

    weight: float = 1.0
    cap: float | None = None
    """The most that they may add up to in an episode, unweighted."""


@dataclass(frozen=True)
class RolloutSettings:
    """How episodes are played."""

    make_env: Callable[[EnvServices], ToolEnv]
    """Makes the environment of one episode; cheap."""
    tools: ToolRunner = field(default_factory=lambda: ToolRunner({}))
    """Already started."""
    tool_format: ToolFormat | None = None
    context: ContextStrategy | None = None
    """What the policy reads; None: everything."""
    examples: Examples | None = None
    """Precede every task; None: nothing does."""
    rewards: Sequence[WeightedReward] = ()
    tool_rewards: Mapping[str, ToolReward] = field(default_factory=dict)
    """By tool; a tool that is missing here counts as it is."""
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
    make_timeout: float = EnvConfig().timeout
    """Seconds for making an environment, whose own time-out is not known before."""

    def rewarding_tools(self) -> dict[str, ToolReward]:
        """The tools that give rewards, and what those count."""
        return {
            name: self.tool_rewards.get(name, ToolReward())
            for name, tool in self.tools.tools.items()
            if tool.reward_range is not None
        }
