"""Synthetic workloads: random models of several shapes, episodes with a given number of turns and tokens, and the
memory that they take.

The models' output is meaningless, and the episodes have no real task.
"""

from __future__ import annotations

import asyncio
import gc
import random
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from pydantic import Field

from agent_r1_core import Action, EnvConfig, Group, Message, Observation, RewardFn, Sampling, Step, Task, ToolEnv
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import Engine, EngineModel
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.packing import micro_batches
from agent_r1_core.learning.policy import Policy
from agent_r1_core.plugins import Registry
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutResult, RolloutSettings, WeightedReward
from agent_r1_core.testing import make_task, make_trajectory, tiny_model, tiny_tokenizer

GROUP = 8
"""Episodes of a group."""

FIELDS = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "rope_theta", "vocab_size")
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": dict(zip(FIELDS, (64, 192, 2), strict=False)),
    "small": dict(zip(FIELDS, (256, 768, 4), strict=False)),
    "qwen2.5-0.5b-2-layers": dict(zip(FIELDS, (896, 4864, 2, 14, 1e6), strict=False)),
    "qwen2.5-3b": dict(zip(FIELDS, (2048, 11008, 36, 16, 1e6, 151936), strict=True)),
}
"""Those of Qwen2Config; defaults: 4 heads, 2 for keys and values, a tiny tokenizer's vocabulary, tied embeddings."""


def make_folder(folder: Path, shape: str, dtype: str = "float32", device: str = "cpu") -> Path:
    """Write a random Qwen2 of a shape, with a tokenizer, unless the folder has one."""
    if (folder / "config.json").is_file():
        return folder
    with torch.device(device):
        model = tiny_model(initializer_range=0.02, max_position_embeddings=32768, **SHAPES[shape])
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


class Walk(ToolEnv):
    """Episodes with a given number of turns, and observations with a given length and latency."""

    class Config(EnvConfig):
        turns: int = Field(2, ge=1)
        prompt: int = Field(128, ge=1)
        """Words of the prompt, about one token each."""
        observation: int = Field(16, ge=1)
        """Words of an observation."""
        latency: float = Field(0.0, ge=0)
        """Mean seconds of an observation."""
        tail: float = Field(0.0, ge=0)
        """Sigma of its log-normal distribution; 0: constant; 1: one in a hundred takes six times the mean."""

    async def reset(self, task: Task) -> Observation:
        self._turn = 0
        return _words(random.Random(task.id), self.config.prompt)

    async def step(self, action: Action) -> Step:
        self._turn += 1
        if self._turn >= self.config.turns:
            return Step(terminated=True, answer="")
        mean, sigma, rng = self.config.latency, self.config.tail, self.services.rng
        await asyncio.sleep(mean * rng.lognormvariate(-sigma * sigma / 2, sigma) if sigma and mean else mean)
        return Step(observation=_words(rng, self.config.observation))


def _words(rng: random.Random, count: int) -> Observation:
    said: Message = {"role": "user", "content": "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=count))}
    return Observation([said])


class Parity(RewardFn):
    """Noise: 1 if the sum of the sampled ids is odd."""

    def score(self, trajectory: Any) -> float:
        return float(sum(trajectory.segments[-1].ids) % 2)


@dataclass
class ServedModel:
    """A model that an engine serves."""

    engine: Engine
    tokenizer: ChatTokenizer

    async def play(self, episodes: int, new_tokens: int, version: int = 0, **walk: Any) -> RolloutResult:
        """Play walks in groups, all at once, with actions of at most `new_tokens`."""
        longest = walk.get("turns", 2) * (new_tokens + 4 * walk.get("observation", 16) + 32)
        config = Walk.Config(max_turns=1000, max_tokens=4 * walk.get("prompt", 128) + 64 + longest, **walk)
        settings = RolloutSettings(
            make_env=lambda services: Walk(config, services),
            rewards=[WeightedReward(Parity())],
            max_episodes=episodes,
            sampling=Sampling(max_new_tokens=new_tokens),
        )
        group, collector = min(GROUP, episodes), Collector(self.engine, self.tokenizer, settings)
        tasks = [Task(f"walk-{10_000 * version + number}", "walk") for number in range(episodes // group)]
        try:
            return await collector.collect(RolloutRequest(tasks, group, version))
        finally:
            collector.close()


@asynccontextmanager
async def served(
    folder: Path, engine: str, dtype: str, device: str, max_episodes: int, **options: Any
) -> AsyncIterator[ServedModel]:
    """A model behind the engine with that name, for as long as the context lasts.

    Raises:
        AgentR1Error: the engine cannot run here.
    """
    started: Engine = Registry.discover().create("engine", {"name": engine, "max_episodes": max_episodes, **options})
    tokenizer = ChatTokenizer.from_folder(folder)
    await started.start(EngineModel(folder=str(folder), dtype=dtype, device=device, tokenizer=tokenizer))
    try:
        yield ServedModel(started, tokenizer)
    finally:
        await started.close()


def random_groups(groups: int, size: int, tokens: int, prompt: int, vocabulary: int, flat: bool) -> list[Group]:
    """Random groups: a prompt, then observations and actions in turn, a quarter of all tokens actions.

    Args:
        prompt: tokens that the trajectories of a group have in common.
        flat: every second group has no spread.
    """
    rng = random.Random(0)

    def some(count: int) -> list[int]:
        return rng.choices(range(vocabulary), k=count)

    made, turns = [], 4
    action = tokens // 4 // turns
    seen = max(1, (tokens - prompt) // turns - action)
    for number in range(groups):
        task, begins = make_task(f"task-{number}"), some(prompt)
        own = []
        for sample in range(size):
            pairs = [((begins if turn == 0 else []) + some(seen), some(action)) for turn in range(turns)]
            reward = 0.0 if flat and number % 2 else float(sample % 2)
            own.append(make_trajectory(pairs, task=task, sample=sample, reward=reward))
        made.append(Group(task, own))
    return made


def make_learner(folder: str | Path, dtype: str, device: str, checkpointing: Any = "none", **settings: Any) -> Learner:
    """A GRPO learner of a model, with fields of TrainingConfig."""
    policy = Policy.load(folder, dtype=dtype, device=device, gradient_checkpointing=checkpointing)
    algorithm = Registry.discover().create("algorithm", {"name": "grpo", "aggregation": "token_mean"})
    return Learner(policy, algorithm, TrainingConfig(lr=1e-6, **settings))


def products(policy: Policy, groups: list[Group], most: int = 10**9) -> tuple[int, float]:
    """The tokens that an update computes in micro-batches of at most `most`, those that a group shares once, and the
    operations of a forward pass's products: with the layers' weights for each token, with the head's for each action's.
    """
    batch, head = Batch.from_groups(groups), policy.head.linear.get_parameter("weight").numel()
    tokens = sum(len(packed.tree.ids) for packed in micro_batches(batch, range(batch.size), most))
    layers = sum(one.numel() for name, one in policy.weights().items() if ".layers." in name and one.dim() == 2)
    return tokens, 2.0 * (layers * tokens + head * int(batch.action_mask.sum()))


@contextmanager
def peak(device: str = "cpu") -> Iterator[SimpleNamespace]:
    """Measure the peak use of memory above that at the start, `bytes`; NaN if it cannot be measured."""
    measured = SimpleNamespace(bytes=float("nan"))
    gc.collect()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = float(torch.cuda.memory_allocated())
        yield measured
        measured.bytes = torch.cuda.max_memory_allocated() - before
        return
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        yield measured
        return
    before = _status("VmRSS")
    yield measured
    measured.bytes = _status("VmHWM") - before


def _status(field: str) -> float:
    """A field of the process's status, in bytes."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    return 1024.0 * int(found[1]) if found else float("nan")
