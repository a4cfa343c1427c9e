"""One run configuration: a YAML recipe plus `key=value` overrides, resolved into a complete, checked RunConfig."""

from __future__ import annotations

from agent_r1_core.config.load import DEFAULT_RECIPE, ResolvedConfig, load_config
from agent_r1_core.config.models import (
    CheckpointConfig,
    EvaluationConfig,
    HealthConfig,
    ModelConfig,
    RecordingConfig,
    RunConfig,
    RunSection,
    TasksConfig,
)
from agent_r1_core.config.recipe import find_recipe, recipe_folders, recipe_names
from agent_r1_core.contracts.blocks import ComponentBlock, RewardBlock, ToolBlock
from agent_r1_core.contracts.training import LoraSettings, TrainingConfig

__all__ = [
    "DEFAULT_RECIPE",
    "CheckpointConfig",
    "ComponentBlock",
    "EvaluationConfig",
    "HealthConfig",
    "LoraSettings",
    "ModelConfig",
    "RecordingConfig",
    "ResolvedConfig",
    "RewardBlock",
    "RunConfig",
    "RunSection",
    "TasksConfig",
    "ToolBlock",
    "TrainingConfig",
    "find_recipe",
    "load_config",
    "recipe_folders",
    "recipe_names",
]
