"""RunConfig: everything that decides about one training or evaluation, as immutable sections.

Components are blocks (blocks.py): their own options are validated by their own `Config` when a recipe is resolved.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, field_validator

from agent_r1_core.config.blocks import ComponentBlock, RewardBlock, Section, ToolBlock

Beta = Annotated[float, Field(ge=0, lt=1)]


class LoraSettings(Section):
    """Train low-rank adapters in place of the whole model (needs the package `peft`)."""

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    """The adapters' output is scaled by alpha / rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    target_modules: tuple[str, ...] = ()
    """Names of the layers that get adapters; empty: every linear layer but the head."""


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


class TrainingConfig(Section):
    """How the policy is trained."""

    steps: int = Field(default=30, ge=1)
    """Rollout and update pairs."""
    tasks_per_step: int = Field(default=16, ge=1)
    """At most: an epoch is cut into equal steps, so that no task is left out or comes twice."""
    samples_per_task: int = Field(default=8, ge=1)
    """Episodes of each task: the size of a group."""
    epochs: int = Field(default=1, ge=1)
    """Passes over each rollout."""
    minibatches: int = Field(default=1, ge=1)
    """Optimiser steps of one pass."""
    lr: float = Field(default=2e-4, gt=0)
    critic_lr: float | None = Field(default=None, gt=0)
    """None: the policy's."""
    critic_warmup: int = Field(default=0, ge=0)
    """First steps in which only the critic learns."""
    weight_decay: float = Field(default=0.0, ge=0)
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    """Of AdamW."""
    max_grad_norm: float = Field(default=1.0, ge=0)
    """Gradients are scaled down to this norm; 0: never."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises from zero."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Of the learning rate after the warm-up; `linear` and `cosine` fall towards zero, which a step after the last one
    would reach."""
    max_tokens_per_microbatch: int = Field(default=4096, ge=1)
    """Bounds memory; the gradient does not depend on it."""
    old_logprobs: Literal["auto", "engine", "learner"] = "auto"
    """Log-probs before the update, where several passes or mini-batches need them: the engine's, or a pass of the
    learner's own; `auto`: the engine's where a sample of the rollout agrees to 1e-4 nats, as in float32."""
    share_prefixes: bool = True
    """Compute tokens that the episodes of a task share from their first id on once; the gradient is the same."""
    skip_without_gradient: bool = True
    """Leave out episodes on which every loss term has zero gradient; the gradient is the same."""
    max_retries: int = Field(default=2, ge=0)
    """How often a failed episode is started again before it is dropped."""
    shuffle: bool = True
    """Draw the tasks in a random order, which the seed decides."""
    importance_clip: float | None = Field(default=None, gt=0)
    """Truncated importance weights against a mismatch of sampler and learner: the ratio is clamped here."""


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
    env: ComponentBlock = ComponentBlock(name="tool_calling")
    tools: tuple[ToolBlock, ...] = ()
    rewards: tuple[RewardBlock, ...] = (RewardBlock(name="exact_match"),)
    algorithm: ComponentBlock = ComponentBlock(name="grpo")
    engine: ComponentBlock = ComponentBlock(name="transformers")
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
