"""RunConfig: everything that decides about one training or evaluation, as immutable sections.

Components are blocks: their own options are validated by their own `Config` when a recipe is resolved (components.py).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, PositiveInt, Tag, field_validator

from agent_r1_core.config.blocks import holds_sets
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
    """Of computation; the trained weights and the optimiser stay in float32. `auto`: bfloat16 on a GPU that has it, and
    on a CPU that is a fifth faster with it, which is measured once; a run's own for its evaluations."""
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


def _source_or_sets(value: Any) -> str:
    """Which of the two a value for `tasks.eval` is, before it is validated and after."""
    blocks = isinstance(value, dict) and any(isinstance(entry, ComponentBlock) for entry in value.values())
    return "sets" if blocks or holds_sets(value) else "source"


def _set_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or name in _NO_SET_NAMES:
        raise ValueError(
            f"cannot be a set's name: take letters, digits and '_', and none of {', '.join(_NO_SET_NAMES)}"
        )
    return name


_NO_SET_NAMES = ("train", "eval", "reward", "status")
"""They mean something else in metrics and commands."""


class TasksConfig(Section):
    """Where the tasks come from."""

    train: ComponentBlock = ComponentBlock(name="miniwiki")
    eval: (
        Annotated[
            Annotated[ComponentBlock, Tag("source")]
            | Annotated[dict[Annotated[str, AfterValidator(_set_name)], ComponentBlock], Tag("sets")],
            Discriminator(_source_or_sets),
        ]
        | None
    ) = None
    """One source, or several by name: `{hotpot: {name: hotpotqa, ...}, wiki: {name: miniwiki, ...}}`; null: a part of
    the training tasks is held out."""

    @property
    def eval_sets(self) -> dict[str, ComponentBlock | None]:
        """The evaluation sets by name; a single one is called `eval`, and is None where it is held out of training."""
        return dict(self.eval) if isinstance(self.eval, dict) else {"eval": self.eval}


class EvaluationConfig(Section):
    """When and how the policy is evaluated."""

    every: int = Field(default=10, ge=0)
    """Steps between evaluations; 0: none in between."""
    greedy: bool = True
    """False: sampled with the engine's temperature."""
    size: int | None = Field(default=None, ge=1)
    """How many tasks of each evaluation set; None: all."""
    sample: Literal["first", "random"] = "first"
    """Which of them: the first ones, or as many at random, which the seed decides."""
    choose_on: str | None = None
    """The evaluation set whose scores choose the best checkpoint. It enters no mean over the sets, so that the scores
    that are reported did not choose what they score."""
    at_start: bool = True
    at_end: bool = True


class CheckpointConfig(Section):
    """What is kept on disk."""

    every: int = Field(default=10, ge=1)
    """Steps between checkpoints; the last step has one in any case."""
    keep: int = Field(default=2, ge=1)
    """How many of the newest are kept, beside the best."""
    best: str | None = "eval/exact_match"
    """The metric whose highest value names the best checkpoint; null: none is kept for being best. With
    evaluation.choose_on it is read on that set."""


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

    @property
    def best_metric(self) -> str | None:
        """The metric that names the best checkpoint: `checkpoint.best`, read on the set `evaluation.choose_on`."""
        best, chooser = self.checkpoint.best, self.evaluation.choose_on
        if best is None or chooser is None or best.startswith(f"eval/{chooser}/"):
            return best
        return f"eval/{chooser}/{best.removeprefix('eval/')}"
