"""RunConfig: everything that decides about one training or evaluation, as immutable sections.

Components are blocks: their own options are validated by their own `Config` when a recipe is resolved (components.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt, field_validator

from agent_r1_core.contracts.blocks import (
    AlgorithmBlock,
    ComponentBlock,
    EngineBlock,
    EnvBlock,
    RewardBlock,
    ToolBlock,
)
from agent_r1_core.contracts.section import Section
from agent_r1_core.contracts.training import LoraSettings, TrainingConfig


class ModelConfig(Section):
    """The policy that training starts from."""

    name: str = Field(default="tiny", min_length=1)
    """`tiny` is bundled; else a name on the Hugging Face hub, a folder, or a run."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of computation; the trained weights and the optimiser stay in float32. `auto`: what the machine does fast."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto`: a CUDA GPU where there is one."""
    lora: LoraSettings | None = None
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass: much less memory for about a third more time."""

    @field_validator("name")
    @classmethod
    def _absolute(cls, name: str) -> str:
        """A path to something that exists is kept absolute, so that a run can be resumed from anywhere."""
        path = Path(name).expanduser()
        return str(path.absolute()) if len(path.parts) > 1 and path.exists() else name


class TasksConfig(Section):
    """Where the tasks come from."""

    train: ComponentBlock = ComponentBlock(name="miniwiki")
    eval: ComponentBlock | None = None
    """None: a part of the training tasks is held out."""


class EvaluationConfig(Section):
    """When and how the policy is evaluated."""

    every: int = Field(default=10, ge=0)
    """Steps between evaluations; 0: none in between."""
    greedy: bool = True
    """False: sampled with the engine's temperature."""
    size: int | None = Field(default=None, ge=1)
    """How many evaluation tasks, from the first; None: all."""
    at_start: bool = True
    at_end: bool = True


class CheckpointConfig(Section):
    """What is kept on disk."""

    every: int = Field(default=10, ge=1)
    """Steps between checkpoints; the last step has one in any case."""
    keep: int = Field(default=2, ge=1)
    """How many of the newest are kept, beside the best."""
    best: str | None = "eval/exact_match"
    """The metric whose highest value names the best checkpoint; null: none is kept for being best."""


class HealthConfig(Section):
    """What happens when training collapses."""

    early_stop: bool = False
    """Stop when the collapse monitors agree that nothing is learnt any more."""


class RunSection(Section):
    """Where the run lies."""

    dir: str = Field(default="runs", min_length=1)
    name: str | None = Field(default=None, pattern=r"^[\w.+-]+$")
    """null: the recipe's name and the first free number."""


class RunConfig(Section):
    """One run's configuration."""

    model: ModelConfig = ModelConfig()
    tasks: TasksConfig = TasksConfig()
    env: EnvBlock = EnvBlock(name="tool_calling")
    tools: tuple[ToolBlock, ...] = ()
    rewards: tuple[RewardBlock, ...] = (RewardBlock(name="exact_match"),)
    algorithm: AlgorithmBlock = AlgorithmBlock(name="grpo")
    engine: EngineBlock = EngineBlock(name="transformers")
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    health: HealthConfig = HealthConfig()
    trackers: tuple[ComponentBlock, ...] = ()
    plugins: tuple[str, ...] = ()
    """Python files that are loaded as plugins; relative to the recipe that names them."""
    run: RunSection = RunSection()
    deterministic: bool = False
    """Two runs are equal bit for bit: CPU only, fixed threads and precision, episodes stepped in a fixed order."""
    threads: Literal["auto"] | PositiveInt = "auto"
    """CPU threads of the model's computation; `auto` measures once which number is fastest."""
    seed: int = Field(default=0, ge=0)
