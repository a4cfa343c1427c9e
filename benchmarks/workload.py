"""Synthetic workloads: random models of several shapes, and episodes with a given number of turns and tokens.

The models' output is meaningless, and the episodes have no real task.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from agent_r1_core import Action, EnvConfig, Message, Observation, RewardFn, Sampling, Step, Task, ToolEnv
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import Engine, EngineModel
from agent_r1_core.contracts.env import EnvServices
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.plugins import Registry
from agent_r1_core.rollout import Collector, RolloutSettings, WeightedReward

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2},
    "small": {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 4},
    "wide-vocabulary": {
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 4,
        "vocab_size": 151936,
    },
    "qwen2.5-0.5b-2-layers": {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 2,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "rope_theta": 1000000.0,
    },
    "qwen2.5-3b": {
        "hidden_size": 2048,
        "intermediate_size": 11008,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "rope_theta": 1000000.0,
    },
}
"""Fields of Qwen2Config; defaults: 4 heads, 2 for keys and values, a tiny tokenizer's vocabulary, tied embeddings."""


def make_folder(folder: Path, shape: str, dtype: str = "float32", device: str = "cpu") -> Path:
    """Write a random Qwen2 of a shape, with a tokenizer, unless the folder has one."""
    if (folder / "config.json").is_file():
        return folder
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from agent_r1_core.testing import tiny_tokenizer

    tokenizer = tiny_tokenizer()
    fields: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    torch.manual_seed(0)
    with torch.device(device):
        model = Qwen2ForCausalLM(Qwen2Config(**(fields | SHAPES[shape])))
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Walk(ToolEnv):
    """Episodes with a given number of turns, and observations with a given length and latency."""

    class Config(EnvConfig):
        """Options of the walk."""

        turns: int = Field(2, ge=1)
        prompt: int = Field(128, ge=1)
        """Words of the prompt, about one token each."""
        observation: int = Field(16, ge=1)
        """Words of an observation."""
        latency: float = Field(0.0, ge=0)
        """Mean seconds of an observation."""
        tail: float = Field(0.0, ge=0)
        """Sigma of its log-normal distribution; 0: constant; 1: one in a hundred takes six times the mean."""

    def __init__(self, config: Any = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._turn = 0

    async def reset(self, task: Task) -> Observation:
        """Show random words, the same for each task."""
        words = random.Random(task.id).choices("abcdefghijklmnopqrstuvwxyz", k=self.config.prompt)
        return Observation([_said("user", words)])

    async def step(self, action: Action) -> Step:
        """Show more words, until the last turn."""
        self._turn += 1
        if self._turn >= self.config.turns:
            return Step(terminated=True, answer="")
        await asyncio.sleep(self._seconds())
        words = self.services.rng.choices("abcdefghijklmnopqrstuvwxyz", k=self.config.observation)
        return Step(observation=Observation([_said("user", words)]))

    def _seconds(self) -> float:
        mean, sigma = self.config.latency, self.config.tail
        return mean * self.services.rng.lognormvariate(-sigma * sigma / 2, sigma) if sigma and mean else float(mean)


def _said(role: str, words: Sequence[str]) -> Message:
    return {"role": role, "content": "".join(words)}


class Parity(RewardFn):
    """Noise: whether the sum of the sampled ids is even."""

    def score(self, trajectory: Any) -> float:
        """0 or 1."""
        return float(sum(trajectory.segments[-1].ids) % 2)


@dataclass
class ServedModel:
    """A model that an engine serves."""

    engine: Engine
    tokenizer: ChatTokenizer

    @classmethod
    async def open(cls, folder: Path, engine: str, dtype: str, device: str, max_episodes: int) -> ServedModel:
        """Start the engine with that name.

        Raises:
            AgentR1Error: the engine cannot run here.
        """
        started: Engine = Registry.discover().create("engine", {"name": engine, "max_episodes": max_episodes}, "engine")
        tokenizer = ChatTokenizer.from_folder(folder)
        await started.start(EngineModel(folder=str(folder), dtype=dtype, device=device, tokenizer=tokenizer))
        return cls(started, tokenizer)

    def collector(self, episodes: int, new_tokens: int, **walk: Any) -> Collector:
        """A collector of walks: `episodes` at once, actions of at most `new_tokens`."""
        longest = walk.get("turns", 2) * (new_tokens + 4 * walk.get("observation", 16) + 32)
        config = Walk.Config(max_turns=1000, max_tokens=4 * walk.get("prompt", 128) + 64 + longest, **walk)
        settings = RolloutSettings(
            make_env=lambda services: Walk(config, services),
            rewards=[WeightedReward(Parity())],
            max_episodes=episodes,
            sampling=Sampling(max_new_tokens=new_tokens),
        )
        return Collector(self.engine, self.tokenizer, settings)

    async def close(self) -> None:
        """Stop the engine."""
        await self.engine.close()


def questions(episodes: int, group: int, first: int = 0) -> list[Task]:
    """The tasks for `episodes` episodes in groups of `group`."""
    return [Task(f"walk-{first + number}", "walk") for number in range(max(1, episodes // group))]


def make_learner(folder: str | Path, dtype: str, device: str, checkpointing: bool = False, **settings: Any) -> Learner:
    """A GRPO learner of a model, with fields of TrainingConfig."""
    policy = Policy.load(folder, dtype=dtype, device=device, gradient_checkpointing=checkpointing)
    algorithm = Registry.discover().create("algorithm", {"name": "grpo", "aggregation": "token_mean"}, "algorithm")
    return Learner(policy, algorithm, TrainingConfig(lr=1e-6, **settings))
