"""Blueprint: all that the two roles of a run are made from, in this process or in others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_r1_core.assembly.model_source import ModelSource, find_model
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.contracts.engine import EngineModel
from agent_r1_core.errors import ConfigError

if TYPE_CHECKING:
    from agent_r1_core.assembly.hardware import Hardware
    from agent_r1_core.assembly.task_sets import TaskSet
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.contracts.tool import Tool
    from agent_r1_core.rollout.examples import Examples
    from agent_r1_core.runs.checkpoint import Checkpoint


@dataclass(frozen=True)
class Blueprint:
    """A run's configuration with what was found for it."""

    resolved: ResolvedConfig
    """With `auto` replaced by what the hardware decided."""
    hardware: Hardware
    model: ModelSource
    tokenizer: ChatTokenizer
    stages: tuple[str, ...]
    """Names of the task sets whose episodes are played."""
    learning: bool = True
    checkpoint: Checkpoint | None = None
    """From which a resumed run goes on."""
    sets: Mapping[str, TaskSet] = field(default_factory=dict)
    """The task sets that are loaded already."""
    wrap_tool: Callable[[Tool], Tool] | None = None
    examples: Examples | None = None
    """Shown before every task."""

    @property
    def policy_folder(self) -> Path:
        """The Hugging Face folder with the policy's first weights."""
        return self.checkpoint.policy if self.checkpoint is not None else self.model.folder

    def frozen_model(self, name: str) -> EngineModel:
        """A model that never learns, with its own tokenizer: a name as in `model.name`, or `start`.

        Raises:
            ConfigError: nothing says which model `start` is.
            ModelError, RunError: it is not available.
        """
        if name == "start" and self.model.run is not None and not self.learning:
            raise ConfigError(
                "`start` is the model that a training begins with; to evaluate a run, name the judge or the opponent "
                "in the option that says start, such as rewards.1.frozen=MODEL"
            )
        folder = self.model.folder if name == "start" else find_model(name).folder
        return replace(self.engine_model(), folder=str(folder), tokenizer=ChatTokenizer.from_folder(folder))

    def with_same_ids(self, name: str) -> Path:
        """The folder of another model that reads the policy's ids.

        Raises:
            ConfigError: its tokenizer is another one.
            ModelError, RunError: it is not available.
        """
        folder = find_model(name).folder
        if ChatTokenizer.from_folder(folder).raw.get_vocab() != self.tokenizer.raw.get_vocab():
            raise ConfigError(f"{name} reads other ids than the policy; name a model with the same tokenizer")
        return folder

    def engine_model(self) -> EngineModel:
        """The model as an engine is given it. A worker that is started late may find its checkpoint pruned; it can do
        with the first weights, since it gets the newest before it plays."""
        folder = self.policy_folder
        return EngineModel(
            folder=str(folder if folder.is_dir() else self.model.folder),
            dtype=self.hardware.dtype,
            device=self.hardware.device,
            tokenizer=self.tokenizer,
            deterministic=self.resolved.config.deterministic,
        )
