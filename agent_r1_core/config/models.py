"""RunConfig: everything that determines one training or evaluation, as immutable sections.

Components are blocks; each component's `Config` validates its options when a recipe is resolved (components.py).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator

from agent_r1_core.config.blocks import holds_sets
from agent_r1_core.contracts.blocks import (
    AlgorithmBlock,
    ComponentBlock,
    EngineBlock,
    EnvBlock,
    RewardBlock,
    ScoreBlock,
    TasksBlock,
    ToolBlock,
)
from agent_r1_core.contracts.component import RUN_NAME, Section, located
from agent_r1_core.contracts.training import LoraSettings, Recomputation, TrainingConfig
from agent_r1_core.health.watch import HealthConfig
from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.scorers import EXACT_MATCH


def _recomputation(value: Any) -> Any:
    return ("full" if value else "none") if isinstance(value, bool) else value


class ModelConfig(Section):
    """The policy that training starts from."""

    name: str = Field(default="tiny", min_length=1)
    """`tiny` and `tiny-worlds` are bundled; else a name on the Hugging Face hub, a folder, a run, or a GGUF file."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of computation; the trained weights and the optimiser stay in float32. `auto`: bfloat16 on a GPU that
    supports it, and on a CPU where one measurement, beside no other work, finds it 1.5 times as fast as float32;
    evaluations of a run use its choice."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto`: a CUDA GPU if there is one."""
    lora: LoraSettings | None = None
    gradient_checkpointing: Annotated[Recomputation, BeforeValidator(_recomputation)] = "none"
    """What the backward pass computes again, to keep less until then. `selective`: all but matrix products and
    attention, for about half of the activations' memory and little time. `full`: whole layers, for much less memory and
    about a third more time. `true` means full, `false` none."""

    @field_validator("name")
    @classmethod
    def _absolute(cls, name: str, info: ValidationInfo) -> str:
        """Make an existing path absolute, so that a run can be resumed from anywhere.

        A folder or GGUF file that is not beside the recipe may also be in the current folder.
        """
        path, here = located(name, info), Path(name).absolute()
        if name.startswith((".", "~")):
            return str(path)
        is_file = Path(name).suffix.lower() == ".gguf"
        if len(Path(name).parts) == 1 and not is_file:
            return name
        return str(path) if path.exists() else str(here) if here.is_dir() or (is_file and here.exists()) else name


def _source_or_sets(value: Any) -> str:
    """Whether a value is one task source or several sets by name, before and after validation."""
    blocks = isinstance(value, dict) and any(isinstance(entry, ComponentBlock) for entry in value.values())
    return "sets" if blocks or holds_sets(value) else "source"


def _set_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or name in _NO_SET_NAMES:
        raise ValueError(
            f"cannot be a set's name: take letters, digits and '_', and none of {', '.join(_NO_SET_NAMES)}"
        )
    return name


_NO_SET_NAMES = ("train", "eval", "name", "reward", "score", "status")
"""Names with another meaning in recipes, metrics and commands."""


_Sources = Annotated[
    Annotated[TasksBlock, Tag("source")]
    | Annotated[dict[Annotated[str, AfterValidator(_set_name)], TasksBlock], Tag("sets")],
    Discriminator(_source_or_sets),
]
"""One source, or several by name: `{hotpot: {name: hotpotqa, ...}, wiki: {name: miniwiki, ...}}`."""


class TasksConfig(Section):
    """Where the tasks come from: in each place one source, or several by name."""

    train: _Sources = TasksBlock(name="miniwiki")
    """Several are mixed by their weights: `{hotpot: {name: hotpotqa, weight: 2, ...}, wiki: {name: miniwiki, ...}}`."""
    eval: _Sources | None = None
    """null: a part of the training tasks is held out."""

    @property
    def train_sets(self) -> dict[str, TasksBlock]:
        """The training sets by name, sorted; a single set is called `train`."""
        return dict(sorted(self.train.items())) if isinstance(self.train, dict) else {"train": self.train}

    @property
    def eval_sets(self) -> dict[str, TasksBlock | None]:
        """The evaluation sets by name; a single set is called `eval`, and is None if it is held out of training."""
        return dict(self.eval) if isinstance(self.eval, dict) else {"eval": self.eval}


class EvaluationConfig(Section):
    """When and how the policy is evaluated."""

    every: int = Field(default=10, ge=0)
    """Steps between evaluations; 0: none between start and end."""
    greedy: bool = True
    """Take the likeliest token; false: sample with the engine's temperature."""
    size: int | None = Field(default=None, ge=1)
    """Number of tasks from each evaluation set; null: all."""
    sample: Literal["first", "random"] = "first"
    """Which tasks: the first ones, or a random choice that the seed decides."""
    choose_on: str | None = None
    """The evaluation set whose scores choose the best checkpoint. It is in no mean over the sets, so that the reported
    tasks did not choose the checkpoint."""
    at_start: bool = True
    at_end: bool = True

    @property
    def happens(self) -> bool:
        """Whether anything is evaluated."""
        return bool(self.every) or self.at_start or self.at_end


class CheckpointConfig(Section):
    """What is kept on disk."""

    every: int = Field(default=10, ge=1)
    """Steps between checkpoints; the last step always has one."""
    keep: int = Field(default=2, ge=1)
    """How many of the newest to keep, besides the best."""
    background: bool = True
    """Copy the state and write it while training goes on; false: training waits, and no memory is needed for a copy (12
    bytes for each trained parameter, on the CPU)."""
    best: str | None = metric.evaluated(EXACT_MATCH)
    """The metric whose highest value marks the best checkpoint, also one of `scores`: eval/score/NAME; null: no
    checkpoint is kept as the best. With evaluation.choose_on, the metric of that set."""


class RecordingConfig(Section):
    """What a run keeps for people to read, beside what training needs. It changes nothing that is computed."""

    learner: bool = True
    """For each action token its log-prob under the weights before the update, where the update has computed it anyway,
    and the critic's value."""
    dropped: bool = True
    """Episodes that failed at every attempt."""
    evaluation_episodes: int = Field(default=200, ge=0)
    """How many of an evaluation set's episodes are kept token by token: the first ones; 0: none."""


class DistributedConfig(Section):
    """How many processes share the work, and where. All defaults: everything runs in one process, without Ray."""

    site: str = "ray"
    """The site whose workers these are, by its name in `agent-r1 plugins list`."""
    rollout_workers: int = Field(default=0, ge=0)
    """Processes that play episodes, each with an engine and tools of its own; 0: the process of the command plays."""
    learner_workers: int = Field(default=0, ge=0)
    """Processes that learn together, each with a shard of the networks; 0: the process of the command learns."""
    gpus_per_rollout_worker: float | None = Field(default=None, ge=0)
    """null: 1 where the cluster has GPUs, else 0."""
    gpus_per_learner_worker: float | None = Field(default=None, ge=0, le=1)
    """null: 1 where the cluster has GPUs, else 0."""
    placement: Literal["separate", "colocated"] = "separate"
    """`separate`: every worker has its own GPUs; `colocated`: a rollout worker and a learner worker share theirs and
    take turns."""
    weights: Literal["store", "nixl"] = "store"
    """How new weights reach rollout workers: through Ray's object store, or by NIXL out of the learner workers' memory,
    for large models over fast networks."""
    address: str | None = None
    """The Ray cluster to join: HOST:PORT, or `auto` for the one that runs on this machine; null: start a Ray on this
    machine, and stop it at the end."""

    @field_validator("address")
    @classmethod
    def _form(cls, address: str | None) -> str | None:
        if address is not None and re.fullmatch(r"auto|[^\s:]+:\d+", address) is None:
            raise ValueError("must be auto or HOST:PORT")
        return address

    @property
    def used(self) -> bool:
        """Whether any role has workers."""
        return self.rollout_workers > 0


class RunSection(Section):
    """Where the run is stored."""

    dir: str = Field(default="runs", min_length=1)
    name: str | None = Field(default=None, pattern=f"^{RUN_NAME}$")
    """The run's name; null: the recipe's name and the first free number."""


class RunConfig(Section):
    """One run's configuration."""

    model: ModelConfig = ModelConfig()
    tasks: TasksConfig = TasksConfig()
    env: EnvBlock = EnvBlock(name="tool_calling")
    context: ComponentBlock = ComponentBlock(name="append")
    """What the policy reads when an episode grows long."""
    tools: tuple[ToolBlock, ...] = ()
    rewards: tuple[RewardBlock, ...] = (RewardBlock(name="exact_match"),)
    scores: tuple[ScoreBlock, ...] = ()
    """What evaluations report besides the scores that every evaluation has."""
    algorithm: AlgorithmBlock = AlgorithmBlock(name="grpo")
    engine: EngineBlock = EngineBlock(name="transformers")
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    health: HealthConfig = HealthConfig()
    trackers: tuple[ComponentBlock, ...] = ()
    recording: RecordingConfig = RecordingConfig()
    distributed: DistributedConfig = DistributedConfig()
    plugins: tuple[str, ...] = ()
    """Python files to load as plugins; paths are relative to the recipe that names them."""
    run: RunSection = RunSection()
    deterministic: bool = False
    """Make runs repeatable bit for bit: CPU only, fixed threads and precision, episodes stepped in a fixed order."""
    threads: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = "auto"
    """CPU threads of the model's computation; `auto` measures once which number is fastest."""
    kernels: bool = True
    """In float32 on a CPU, use kernels that are compiled for it when first needed, if there is a C++ compiler; on a GPU
    let torch compile some for the learner. false: torch's own operations alone."""
    seed: int = Field(default=0, ge=0)

    @property
    def best_metric(self) -> str | None:
        """The metric that marks the best checkpoint: `checkpoint.best`, of the set `evaluation.choose_on` if given."""
        best, chooser = self.checkpoint.best, self.evaluation.choose_on
        if best is None or chooser is None or best.startswith(metric.evaluated("", chooser)):
            return best
        return metric.evaluated(best.removeprefix(metric.EVALUATION), chooser)
